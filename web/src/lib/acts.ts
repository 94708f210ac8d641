/** What a person does to runs: star, tag, stop, delete; said in a sentence, undone where it can be. */
import { post, runUrl, type Row } from "./api";
import { session } from "./session.svelte";

export async function edit(id: string, changes: Record<string, unknown>): Promise<boolean> {
  return doing(() => post(`${runUrl(id)}/edit`, changes));
}

export async function stop(rows: Row[]): Promise<void> {
  const alive = rows.filter((row) => row.alive);
  if (alive.length === 0) return session.say("None of these is running.");
  if (!confirm(`Stop ${named(alive)}?`)) return;
  for (const row of alive) if (!(await doing(() => post(`${runUrl(row.id)}/stop`, {})))) return;
  session.say(`Asked ${named(alive)} to stop.`);
}

/** Hide runs; `after` is told whether they are gone (true) or back. */
export async function remove(rows: Row[], after: (gone: boolean) => void): Promise<void> {
  for (const row of rows) if (!(await doing(() => post(`${runUrl(row.id)}/remove`, {})))) return;
  after(true);
  session.say(`Deleted ${named(rows)}.`, false, () => {
    void (async () => {
      for (const row of rows) await doing(() => post(`${runUrl(row.id)}/remove`, { undo: true }));
      after(false);
    })();
  });
}

function named(rows: Row[]): string {
  return rows.length === 1 ? rows[0].name || rows[0].id : `${rows.length} runs`;
}

async function doing(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    session.say((error as Error).message, true);
    return false;
  }
}
