/** The state of the compare page, all of it in the address: a link shows the same view. */
import { router } from "../../lib/router.svelte";
import { joined, parted, toQuery } from "../../lib/routes";

export type Tab = "charts" | "config" | "scatter" | "parallel";
export const TABS: Tab[] = ["charts", "config", "scatter", "parallel"];

const DEFAULTS: Record<string, string> = { view: "charts", x: "step", band: "std", alpha: "1" };

class View {
  #read = (key: string): string => router.at.query.get(key) ?? DEFAULTS[key] ?? "";

  runs = $derived(parted(this.#read("runs")));
  tab = $derived((TABS as string[]).includes(this.#read("view")) ? (this.#read("view") as Tab) : "charts");
  metrics = $derived(parted(this.#read("m")));
  rows = $derived(router.at.query.get("rows"));
  cols = $derived(router.at.query.get("cols"));
  hue = $derived(router.at.query.get("hue"));
  dash = $derived(this.#read("dash"));
  over = $derived(this.#read("over"));
  band = $derived<"std" | "range">(this.#read("band") === "range" ? "range" : "std");
  x = $derived<"step" | "time">(this.#read("x") === "time" ? "time" : "step");
  log = $derived(this.#read("log") === "1");
  smooth = $derived(between(this.#read("smooth"), 0, 0.99, 0));
  alpha = $derived(between(this.#read("alpha"), 0.05, 1, 1));
  low = $derived(number(this.#read("y").split("~")[0]));
  high = $derived(number(this.#read("y").split("~")[1] ?? ""));
  hideEqual = $derived(this.#read("equal") === "hide");
  search = $derived(this.#read("q"));
  sx = $derived(this.#read("sx"));
  sy = $derived(this.#read("sy"));
  sc = $derived(this.#read("sc"));
  slog = $derived(this.#read("slog"));
  axes = $derived(parted(this.#read("axes")));
  color = $derived(this.#read("color"));

  /** Change some settings. Defaults are left out of the address; for rows, cols and hue, "" means none and is kept. */
  set(changes: Record<string, string | null>): void {
    const query = new URLSearchParams(router.at.query);
    for (const [key, value] of Object.entries(changes))
      if (value === null || value === DEFAULTS[key] || (value === "" && !["rows", "cols", "hue"].includes(key)))
        query.delete(key);
      else query.set(key, value);
    router.go(toQuery(router.at.path, query), true);
  }

  list(key: string, names: string[]): void {
    this.set({ [key]: joined(names) });
  }
}

function number(text: string): number | null {
  const value = Number(text);
  return text.trim() !== "" && Number.isFinite(value) ? value : null;
}

function between(text: string, low: number, high: number, otherwise: number): number {
  return Math.min(high, Math.max(low, number(text) ?? otherwise));
}

export const view = new View();
