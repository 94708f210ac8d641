/** State that all pages share: the server, the connection for changes, the clock, and notes to the user. */
import { get, onRefused, type About, type SharedPart } from "./api";
import * as format from "./format";

export type Note = { id: number; text: string; bad: boolean; undo?: () => void };

/** Whether news reach the page: "waiting" for the server, or "away", as nobody looks and the page does not listen. */
export type Link = "open" | "waiting" | "away";

const LONG_MS = 10_000; // without the server, until the page no longer passes for a live one

export class Session {
  about: About | null = $state.raw(null);
  link: Link = $state("open");
  trouble = $state(""); // why the hub does not answer
  over = $state(""); // why the server no longer answers this page: the link has expired, or the token was replaced
  notes: Note[] = $state.raw([]);
  now = $state(Date.now()); // the moment that the page shows; it stands while no news reach it
  stood_ms = $state(0); // for how long it has stood
  #next = 0;
  #skew_ms = 0;

  constructor() {
    onRefused((sentence) => (this.over = sentence));
    setInterval(() => this.#tick(), 1000);
  }

  async load(): Promise<void> {
    try {
      this.about = await get("/api/about", {});
      this.#skew_ms = this.about.now_t - Date.now();
      this.now = this.about.now_t;
    } catch (error) {
      if (!this.over) this.say((error as Error).message, true);
    }
  }

  #tick(): void {
    const t = Date.now() + this.#skew_ms;
    if (this.link === "open" && !this.over) this.now = t;
    this.stood_ms = t - this.now;
  }

  /** Whether the server has not answered for so long that what is shown is of the past. */
  get lost(): boolean {
    return this.link === "waiting" && this.stood_ms > LONG_MS;
  }

  /** Whether the page shows how it was, and not how it is. */
  get isPast(): boolean {
    return this.over !== "" || this.lost;
  }

  /** The moment that the page shows, for people. */
  get asOf(): string {
    return format.minute(this.now, this.now + this.stood_ms);
  }

  get mayEdit(): boolean {
    return this.about !== null && !this.about.read_only;
  }

  /** What was shared with the reader, who came by links; empty for the owner. */
  get shared(): SharedPart[] {
    return this.about?.shared ?? [];
  }

  /** The page to begin from: the list of runs, or what was shared. */
  get start(): string {
    return this.shared.length === 1 ? this.shared[0].path : "/";
  }

  /** Whether there is a list of runs to go to: whoever was given a single run has none. */
  get hasList(): boolean {
    return !this.start.startsWith("/run/");
  }

  /** Show the user a sentence for some seconds; with `undo`, also an Undo button. */
  say(text: string, bad = false, undo?: () => void): void {
    const note = { id: this.#next++, text, bad, undo };
    this.notes = [...this.notes.filter((one) => one.text !== text), note].slice(-3);
    setTimeout(() => this.drop(note.id), undo ? 12_000 : bad ? 8000 : 4000);
  }

  drop(id: number): void {
    this.notes = this.notes.filter((note) => note.id !== id);
  }
}

export const session = new Session();
