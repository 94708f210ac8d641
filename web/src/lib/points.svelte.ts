/** Points of some series, for drawing: loads all of them first, then only new ones. */
import { series, type Of, type Series, type Since, type Smooth } from "./api";
import type { Range } from "./chart";

export type Wanted = {
  of: Of[];
  x: string;
  width: number;
  range: Range | null;
  buckets?: number; // also all points in so many buckets at most
  smooth?: Smooth | null; // with smoothed values
};

export const keyOf = (one: Of): string => `${one.run}\n${one.name}\n${JSON.stringify(one.tags ?? {})}`;

const AT_ONCE = 250; // series per request

export class Points {
  held: Map<string, Series> = $state.raw(new Map<string, Series>());
  loading = $state(false);
  problem = $state("");
  #wanted: Wanted | null = null;
  #cursors: Since[] = []; // one per request; empty until all points are loaded
  #asking: AbortController | null = null;

  /** Load all points of the wanted series, thinned to `width` pixels. */
  async ask(wanted: Wanted): Promise<void> {
    this.#wanted = wanted;
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    this.loading = true;
    try {
      const { x, width, range, buckets, smooth } = wanted;
      const held = new Map<string, Series>();
      const cursors: Since[] = [];
      for (const of of parts(wanted.of)) {
        const got = await series({ of, x, width, from: range?.[0], to: range?.[1], buckets, smooth }, asking.signal);
        for (const one of got.series) held.set(keyOf(one), one);
        cursors.push(got.cursor);
      }
      this.held = held;
      this.#cursors = cursors;
      this.problem = "";
    } catch (error) {
      if ((error as Error).name === "AbortError") return;
      this.problem = (error as Error).message;
    } finally {
      if (this.#asking === asking) this.loading = false;
    }
  }

  /** Load new points; does nothing while zoomed in. */
  async more(): Promise<void> {
    const wanted = this.#wanted;
    if (!wanted || wanted.range || this.loading) return;
    if (this.#cursors.length === 0) return this.ask(wanted);
    try {
      const next = new Map(this.held);
      const cursors: Since[] = [];
      let crowded = false;
      for (const [place, of] of parts(wanted.of).entries()) {
        const { x, width, buckets, smooth } = wanted;
        const got = await series({ of, x, width, buckets, smooth, since: this.#cursors[place] });
        if (wanted !== this.#wanted || this.loading) return;
        for (const one of got.series) crowded = put(next, one, wanted.width) || crowded;
        cursors.push(got.cursor);
      }
      this.#cursors = cursors;
      this.held = next;
      if (crowded) await this.ask(wanted);
    } catch {
      // the next change tries again
    }
  }

  stop(): void {
    this.#asking?.abort();
    this.#wanted = null;
  }
}

const parts = (of: Of[]): Of[][] =>
  Array.from({ length: Math.ceil(of.length / AT_ONCE) }, (_, i) => of.slice(i * AT_ONCE, (i + 1) * AT_ONCE));

/** Replace a series, or append its new points; return true if it now has far more points than pixels. */
function put(held: Map<string, Series>, one: Series, width: number): boolean {
  const key = keyOf(one);
  const before = held.get(key);
  if (one.since && one.x.length === 0) return false;
  const joined =
    one.since && before
      ? {
          ...one,
          x: join(before.x, one.x),
          y: join(before.y, one.y),
          nan: [...before.nan, ...one.nan],
          first_x: before.first_x,
          buckets: one.buckets ?? before.buckets,
        }
      : one;
  held.set(key, joined);
  return joined.x.length > width * 8;
}

function join(a: Float64Array, b: Float64Array): Float64Array {
  const out = new Float64Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}
