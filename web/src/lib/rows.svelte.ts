/** A long list of runs of which a window is held: fetched as it is scrolled, kept up to date by what changes. */
import { ApiError, get, type Column, type Row } from "./api";
import { live, throttled } from "./live";
import { session } from "./session.svelte";

export type View = { where: string; project: string; sort: string; group: string; columns: string };

const MOST = 200; // rows in one request
const AHEAD = 24; // rows beyond the edges of what is seen
const SOON = 150; // rows that are fetched before who scrolls gets there

export class Rows {
  total = $state(0);
  loaded = $state(false);
  problem = $state(""); // of the query, or of the server
  columns: Column[] = $state.raw([]);
  version = $state(0); // changes with every change of what `at` hands out
  #ids: string[] = [];
  #known = new Map<string, Row>();
  #view: View = { where: "", project: "", sort: "-start_t", group: "", columns: "" };
  #from = 0;
  #to = 40;
  #up = false; // which way it is scrolled
  #cursor = "";
  #turn = 0;
  #looked = "";
  #asking: AbortController | null = null;
  #filling: AbortController | null = null; // what fetches rows that are scrolled to
  #again = throttled(() => this.#refresh(), 700);
  #settling: ReturnType<typeof setTimeout> | undefined;

  /** Follow what changes; returns how to stop. */
  listen(): () => void {
    const stop = live(
      "",
      () => this.#changed(),
      () => ((this.#cursor = ""), this.#changed()),
      (state) => (session.link = state),
    );
    return () => {
      stop();
      clearTimeout(this.#settling);
      this.#asking?.abort();
    };
  }

  // The server may hand out an order that is a second old: when all is quiet, look once more.
  #changed(): void {
    this.#again.call();
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#again.call(), 1500);
  }

  /** Take rows away that were just deleted, before the server tells. */
  drop(ids: string[]): void {
    const gone = new Set(ids);
    const kept: string[] = []; // with holes where the list has them: what is not known keeps its place
    let count = 0;
    this.#ids.forEach((id, i) => {
      if (gone.has(id)) count += 1;
      else kept[i - count] = id;
    });
    this.#ids = kept;
    this.total -= count;
    this.version += 1;
  }

  /** Show another list. What is on screen stays until the new rows are here. */
  show(view: View): void {
    if (JSON.stringify(view) === JSON.stringify(this.#view) && this.loaded) return;
    this.#view = view;
    this.#cursor = "";
    void this.#fetch(true);
  }

  /** Say which rows are seen. */
  look(from: number, to: number): void {
    this.#up = from < this.#from;
    this.#from = Math.max(0, from);
    this.#to = to;
    if (this.#filling) return; // one at a time: the server need not answer for what was only scrolled past
    const span = `${this.#from} ${to} ${this.#cursor}`;
    if (span === this.#looked) return; // a hole that stays one is not asked for again and again
    const hole = this.#hole();
    if (hole === undefined) return;
    this.#looked = span;
    void this.#fetch(false, hole);
  }

  /** The first row that is not known, of those that are seen and those that will be if it is scrolled on. */
  #hole(): number | undefined {
    const [low, high] = this.#up ? [this.#from - SOON, this.#to] : [this.#from, this.#to + SOON];
    const [first, last] = [Math.max(0, low), Math.min(high, this.total) - 1];
    for (let i = 0; i <= last - first; i++) {
      const at = this.#up ? last - i : first + i;
      if (this.at(at) === undefined) return at;
    }
  }

  at(index: number): Row | undefined {
    void this.version;
    const id = this.#ids[index];
    return id === undefined ? undefined : this.#known.get(id);
  }

  find(id: string): Row | undefined {
    void this.version;
    return this.#known.get(id);
  }

  index(id: string): number {
    return this.#ids.indexOf(id);
  }

  /** Put in what was just changed by hand, before the server tells it back. */
  patch(id: string, changes: Partial<Row>): void {
    const row = this.#known.get(id);
    if (!row) return;
    this.#known.set(id, { ...row, ...changes });
    this.version += 1;
  }

  reload(): void {
    this.#cursor = "";
    this.#changed();
  }

  /** Ids of all rows, for selecting them; at most so many. */
  async all(most: number): Promise<Row[]> {
    const rows: Row[] = [];
    while (rows.length < Math.min(most, this.total)) {
      const got = await get("/api/runs", { ...this.#view, offset: rows.length, limit: MOST });
      if (got.rows.length === 0) break;
      rows.push(...got.rows);
    }
    for (const row of rows) if (!this.#known.has(row.id)) this.#known.set(row.id, row);
    return rows.slice(0, most);
  }

  async #refresh(): Promise<void> {
    const offset = Math.max(0, this.#from - AHEAD);
    const limit = Math.min(MOST, this.#to + AHEAD - offset);
    if (!this.#cursor) return this.#fetch(true);
    const turn = this.#turn;
    try {
      const got = await get("/api/runs", { ...this.#view, offset, limit, since: this.#cursor });
      if (turn !== this.#turn) return; // another list is shown by now
      for (const row of got.rows) this.#known.set(row.id, row);
      if (got.ids.some((id) => !this.#known.has(id))) return this.#fetch(true);
      this.#ids = []; // what is out of sight may have moved
      got.ids.forEach((id, i) => (this.#ids[offset + i] = id));
      this.total = got.total;
      this.#cursor = got.cursor;
      this.version += 1;
    } catch (error) {
      if (error instanceof ApiError && error.status === 0) session.link = "waiting";
    }
  }

  async #fetch(anew: boolean, hole = 0): Promise<void> {
    // Who scrolls goes on the same way: as much of it as one question may get, so that rows are seen on the way.
    const offset = Math.max(0, anew ? this.#from - AHEAD : this.#up ? hole + 1 - MOST : hole);
    const limit = anew ? Math.min(MOST, Math.max(60, this.#to + AHEAD - offset)) : MOST;
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    const turn = ++this.#turn;
    if (!anew) this.#filling = asking;
    try {
      const got = await get("/api/runs", { ...this.#view, offset, limit }, asking.signal);
      if (turn !== this.#turn) return;
      if (anew) {
        this.#ids = [];
        if (this.#known.size > 5000) this.#known.clear();
      }
      got.rows.forEach((row) => this.#known.set(row.id, row));
      got.ids.forEach((id, i) => (this.#ids[offset + i] = id));
      this.total = got.total;
      if (got.columns.length || anew) this.columns = got.columns;
      if (anew || !this.#cursor) this.#cursor = got.cursor;
      this.problem = "";
      this.loaded = true;
      this.version += 1;
      if (offset >= got.total && got.total > 0) this.look(0, 40);
    } catch (error) {
      if ((error as Error).name === "AbortError") return;
      // A home in which nothing was ever logged has no store yet: it is empty, not broken.
      const nothing = error instanceof ApiError && /^nothing has been logged/.test(error.message);
      if (nothing) this.total = 0;
      this.problem = nothing ? "" : (error as Error).message;
      this.loaded = true;
    } finally {
      if (this.#filling === asking) this.#filling = null; // the version that has changed has it look again
    }
  }
}
