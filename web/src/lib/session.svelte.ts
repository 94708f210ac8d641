/** State that all pages share: the server, the connection for changes, the clock, and notes to the user. */
import { get, onRefused, type About, type SharedPart } from "./api";

export type Note = { id: number; text: string; bad: boolean; undo?: () => void };

class Session {
  about: About | null = $state.raw(null);
  link: "open" | "waiting" = $state("open");
  trouble = $state(""); // why the hub does not answer
  over = $state(""); // why the server no longer answers this page: the link has expired, or the token was replaced
  notes: Note[] = $state.raw([]);
  now = $state(Date.now());
  #next = 0;
  #skew_ms = 0;

  constructor() {
    onRefused((sentence) => (this.over = sentence));
    setInterval(() => (this.now = Date.now() + this.#skew_ms), 1000);
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
