/** Points of some series of runs, as drawn: all at once at first, then only what is new. */
import { series, type Series, type SeriesAsked } from "./api";
import type { Range } from "./chart";

export type Wanted = { of: SeriesAsked[]; x: string; width: number; range: Range | null };

export const keyOf = (one: { run: string; name: string; tags?: Record<string, string> }): string => `${one.run}\n${one.name}\n${JSON.stringify(one.tags ?? {})}`;

export class Points {
  held: Map<string, Series> = $state.raw(new Map());
  loading = $state(false);
  problem = $state("");
  #wanted: Wanted | null = null;
  #cursor: unknown = null;
  #asking: AbortController | null = null;

  /** Ask for all points of what is wanted, in as many as there are pixels for. */
  async ask(wanted: Wanted): Promise<void> {
    this.#wanted = wanted;
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    this.loading = true;
    try {
      const { of, x, width, range } = wanted;
      const got = await series({ of, x, width, from: range?.[0], to: range?.[1] }, asking.signal);
      this.held = new Map(got.series.map((one) => [keyOf(one), one]));
      this.#cursor = got.cursor;
      this.problem = "";
    } catch (error) {
      if ((error as Error).name === "AbortError") return;
      this.problem = (error as Error).message;
    } finally {
      if (this.#asking === asking) this.loading = false;
    }
  }

  /** Ask for what came since; a part that was zoomed into is left alone. */
  async more(): Promise<void> {
    const wanted = this.#wanted;
    if (!wanted || wanted.range || this.loading) return;
    if (this.#cursor === null) return this.ask(wanted);
    try {
      const got = await series({ of: wanted.of, x: wanted.x, width: wanted.width, since: this.#cursor });
      if (wanted !== this.#wanted) return;
      const next = new Map(this.held);
      let crowded = false;
      for (const one of got.series) {
        const key = keyOf(one);
        const before = next.get(key);
        if (one.since && one.x.length === 0) continue;
        const joined = one.since && before ? { ...one, x: join(before.x, one.x), y: join(before.y, one.y), nan: [...before.nan, ...one.nan], first_x: before.first_x } : one;
        crowded ||= joined.x.length > wanted.width * 8;
        next.set(key, joined);
      }
      this.#cursor = got.cursor;
      this.held = next;
      if (crowded) await this.ask(wanted);
    } catch {
      // the next change asks again
    }
  }

  stop(): void {
    this.#asking?.abort();
    this.#wanted = null;
  }
}

function join(a: Float64Array, b: Float64Array): Float64Array {
  const out = new Float64Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}
