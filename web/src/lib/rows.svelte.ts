/** A long list of runs: loads rows as the user scrolls, and updates them when runs change. */
import { ApiError, get, type Column, type Row } from "./api";
import { live, throttled } from "./live";

export type View = { where: string; project: string; sort: string; group: string; columns: string };

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone; // times are shown in it, and asked for in it
const MOST = 200; // rows per request
const AHEAD = 24; // rows to load above and below the visible ones
const SOON = 150; // rows to load ahead in the direction of scrolling

export class Rows {
  total = $state(0);
  loaded = $state(false);
  problem = $state(""); // an error in the query, or of the server
  columns: Column[] = $state.raw([]);
  version = $state(0); // grows whenever a result of `at` may have changed
  #ids: string[] = [];
  #known = new Map<string, Row>();
  #view: View = { where: "", project: "", sort: "-start_t", group: "", columns: "" };
  #from = 0;
  #to = 40;
  #up = false; // whether the user scrolls up
  #cursor = "";
  #turn = 0;
  #looked = "";
  #asking: AbortController | null = null;
  #filling: AbortController | null = null; // the pending request for rows scrolled to
  #again = throttled(() => this.#refresh(), 700);
  #settling: ReturnType<typeof setTimeout> | undefined;

  /** Follow changes; returns a function that stops it. */
  listen(): () => void {
    const stop = live(
      "",
      () => this.#changed(),
      () => ((this.#cursor = ""), this.#changed()),
    );
    return () => {
      stop();
      clearTimeout(this.#settling);
      this.#asking?.abort();
    };
  }

  // The server caches the order for a second: refresh once more after the last change.
  #changed(): void {
    this.#again.call();
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#again.call(), 1500);
  }

  /** Remove deleted rows at once, before the server reports the change. */
  drop(ids: string[]): void {
    const gone = new Set(ids);
    const kept: string[] = []; // sparse: rows that are not loaded stay gaps
    let count = 0;
    this.#ids.forEach((id, i) => {
      if (gone.has(id)) count += 1;
      else kept[i - count] = id;
    });
    this.#ids = kept;
    this.total -= count;
    this.version += 1;
  }

  /** Show another list. The old rows stay on screen until the new ones are loaded. */
  show(view: View): void {
    if (JSON.stringify(view) === JSON.stringify(this.#view) && this.loaded) return;
    this.#view = view;
    this.#cursor = "";
    void this.#fetch(true);
  }

  /** Set which rows are visible, and load those that are missing. */
  look(from: number, to: number): void {
    this.#up = from < this.#from;
    this.#from = Math.max(0, from);
    this.#to = to;
    if (this.#filling) return; // one request at a time, so that rows scrolled past are never requested
    const span = `${this.#from} ${to} ${this.#cursor}`;
    if (span === this.#looked) return; // do not request a gap twice in a row
    const hole = this.#hole();
    if (hole === undefined) return;
    this.#looked = span;
    void this.#fetch(false, hole);
  }

  /** Return the first row that is not loaded, among the visible ones and the next ones in scroll direction. */
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

  /** Apply an edit of the user at once, before the server reports it. */
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

  /** Load all rows of the list, at most `most`, for selecting them. */
  async all(most: number): Promise<Row[]> {
    const rows: Row[] = [];
    while (rows.length < Math.min(most, this.total)) {
      const got = await get("/api/runs", { ...this.#view, zone: ZONE, offset: rows.length, limit: MOST });
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
      const got = await get("/api/runs", { ...this.#view, zone: ZONE, offset, limit, since: this.#cursor });
      if (turn !== this.#turn) return; // another list is shown now
      for (const row of got.rows) this.#known.set(row.id, row);
      if (got.ids.some((id) => !this.#known.has(id))) return this.#fetch(true);
      this.#ids = []; // rows outside of the response may have moved
      got.ids.forEach((id, i) => (this.#ids[offset + i] = id));
      this.total = got.total;
      this.#cursor = got.cursor;
      this.version += 1;
    } catch {
      // the next change tries again
    }
  }

  async #fetch(anew: boolean, hole = 0): Promise<void> {
    // Load a full request of rows in scroll direction, so that fast scrolling still shows rows.
    const offset = Math.max(0, anew ? this.#from - AHEAD : this.#up ? hole + 1 - MOST : hole);
    const limit = anew ? Math.min(MOST, Math.max(60, this.#to + AHEAD - offset)) : MOST;
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    const turn = ++this.#turn;
    if (!anew) this.#filling = asking;
    try {
      const got = await get("/api/runs", { ...this.#view, zone: ZONE, offset, limit }, asking.signal);
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
      // Before the first run is logged there is no store, and so no list: show an empty one, not an error.
      const nothing = error instanceof ApiError && error.status === 404;
      if (nothing) this.total = 0;
      this.problem = nothing ? "" : (error as Error).message;
      this.loaded = true;
    } finally {
      if (this.#filling === asking) this.#filling = null; // the changed version makes the page call look() again
    }
  }
}
