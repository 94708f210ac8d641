/** The light or dark theme, by the system or by choice, and the colours of lines in it. */
import { recall, remember } from "./memory";
import { DARK, LIGHT } from "./palette";

export type Choice = "system" | "light" | "dark";

class Theme {
  choice: Choice = $state(recall<Choice>("theme", "system"));
  #system = $state(false);
  dark: boolean = $derived(this.choice === "system" ? this.#system : this.choice === "dark");

  constructor() {
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    this.#system = media.matches;
    media.addEventListener("change", (event) => (this.#system = event.matches));
    this.#show();
  }

  choose(choice: Choice): void {
    this.choice = choice;
    remember("theme", choice);
    this.#show();
  }

  #show(): void {
    if (this.choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.choice;
  }

  /** The colours of lines, in order. Reactive: readers update when the theme changes. */
  get palette(): string[] {
    return this.dark ? DARK : LIGHT;
  }

  color(at: number): string {
    return this.palette[at % this.palette.length];
  }
}

export const theme = new Theme();
