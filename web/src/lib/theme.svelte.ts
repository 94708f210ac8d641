/** Dark or light: by the system, or as chosen; and the colours that charts draw with. */
import { recall, remember } from "./memory";

export type Choice = "system" | "light" | "dark";

const LIGHT = [
  "#2a78b5",
  "#d4691c",
  "#2f8f5b",
  "#b8417a",
  "#7a5cc0",
  "#8a6d1f",
  "#1b8f98",
  "#c0392b",
  "#5d6b7a",
  "#6f8f1a",
];
const DARK = [
  "#6cb2eb",
  "#f2994a",
  "#62c48c",
  "#ec7fb0",
  "#b39af0",
  "#d8b04c",
  "#4fc4cd",
  "#f07c6e",
  "#a3b1c2",
  "#b2d04c",
];

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

  /** The colours of lines, in their order; reads as a dependency of whoever draws. */
  get palette(): string[] {
    return this.dark ? DARK : LIGHT;
  }

  color(at: number): string {
    return this.palette[at % this.palette.length];
  }
}

export const theme = new Theme();
