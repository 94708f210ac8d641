/** Actions on runs: edit, stop, delete. Each tells the user its result; a deletion can be undone. */
import { post, type Edit, type Remove, type Row } from "./api";
import { session } from "./session.svelte";

export async function edit(id: string, changes: Edit): Promise<boolean> {
  try {
    await post("/api/runs/{run}/edit", { run: id }, changes);
    return true;
  } catch (error) {
    session.say((error as Error).message, true);
    return false;
  }
}

export async function stop(rows: Row[]): Promise<void> {
  const alive = rows.filter((row) => row.alive);
  if (alive.length === 0) return session.say("None of these is running.");
  if (!confirm(`Stop ${named(alive)}?`)) return;
  const asked = await each(alive, (run) => post("/api/runs/{run}/stop", { run }, {}), "Not stopped");
  if (asked.length) session.say(`Asked ${named(asked)} to stop.`);
}

/** Delete runs. Calls `after` with the deleted runs and true, and with the restored runs and false after an undo. */
export async function remove(rows: Row[], after: (rows: Row[], gone: boolean) => void): Promise<void> {
  const hide = (body: Remove) => (run: string) => post("/api/runs/{run}/remove", { run }, body);
  const gone = await each(rows, hide({}), "Not deleted");
  if (gone.length === 0) return;
  after(gone, true);
  session.say(`Deleted ${named(gone)}.`, false, () => {
    void each(gone, hide({ undo: true }), "Not restored").then((back) => after(back, false));
  });
}

/** Request one action for each run; return the runs where it succeeded, and tell the user about the others. */
async function each(rows: Row[], act: (run: string) => Promise<unknown>, refusal: string): Promise<Row[]> {
  const done: Row[] = [];
  const refused: Row[] = [];
  let why = "";
  for (const row of rows)
    try {
      await act(row.id);
      done.push(row);
    } catch (error) {
      why ||= (error as Error).message;
      refused.push(row);
    }
  if (refused.length) session.say(`${refusal}: ${listed(refused)}. ${why}`, true);
  return done;
}

const name = (row: Row): string => row.name || row.id;

function named(rows: Row[]): string {
  return rows.length === 1 ? name(rows[0]) : `${rows.length} runs`;
}

function listed(rows: Row[]): string {
  const few = rows.slice(0, 5).map(name).join(", ");
  return rows.length > 5 ? `${few} and ${rows.length - 5} more` : few;
}
