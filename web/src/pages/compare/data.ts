/** The compared runs as the server sends them, and access to any property of a run by name. */
import { numeric, type Comparison, type Key, type Series } from "../../lib/api";
import * as format from "../../lib/format";

export const MOST_RUNS = 200; // a figure of more is unreadable
export const MOST_SERIES = 1000;
const NONE = "—";

/** Return a text that is equal for equal values, and only for these: 1 and "1" differ. */
export const token = (value: unknown): string =>
  value === undefined || value === null ? NONE : typeof value === "number" ? String(value) : JSON.stringify(value);

/** Format a value for a cell or a legend. */
export function said(value: unknown, digits?: number): string {
  if (value === undefined || value === null) return NONE;
  if (value === "") return "“”";
  if (Array.isArray(value) && value.every((item) => typeof item === "string" || typeof item === "number"))
    return value.join(value.length && String(value[0]).startsWith("/") ? " " : ", ");
  return format.value(value, digits);
}

/** Digits to show for a property: fewer for measured values; undefined for the default. */
export const digitsOf = (property: string): number | undefined =>
  property.startsWith("metric.") || property === "duration" ? 6 : undefined;

/** Drop the prefix of a key: config.lr is shown as lr. */
export const short = (key: string): string =>
  key.startsWith("config.") ? key.slice(7) : key.startsWith("metric.") ? key.slice(7) : key;

/** The compared runs, with their properties by name. */
export class Table {
  readonly places = new Map<string, number>(); // index of each run, by id
  readonly names: string[];
  #keys = new Map<string, Key>();
  #last = new Map<string, unknown[]>();

  constructor(readonly of: Comparison) {
    of.runs.forEach((run, place) => this.places.set(run.id, place));
    const count = new Map<string, number>();
    for (const run of of.runs) count.set(run.name, (count.get(run.name) ?? 0) + 1);
    this.names = of.runs.map((run) =>
      run.name && count.get(run.name) === 1 ? run.name : `${run.name || "run"} ${run.id.slice(-4)}`,
    );
    for (const key of of.keys) this.#keys.set(key.key, key);
    for (const metric of of.metrics) this.#last.set(`metric.${metric.name}`, metric.last);
  }

  /** The value of a property for the run at an index: a key, metric.NAME (last value), run, name, state, tags... */
  value(property: string, place: number): unknown {
    const key = this.#keys.get(property);
    if (key) return key.missing.includes(place) ? undefined : key.values[place];
    const last = this.#last.get(property);
    if (last) return last[place] ?? undefined;
    const run = this.of.runs[place];
    if (property === "run") return this.names[place];
    if (property === "name") return run.name;
    if (property === "state") return run.state;
    if (property === "tags") return run.tags.join(", ");
    if (property === "duration") return run.duration_s ?? undefined;
    return undefined;
  }

  /** The values of a property for all runs. */
  column(property: string): unknown[] {
    return this.of.runs.map((_, place) => this.value(property, place));
  }

  /** Whether a property has values, and all of them are numbers. */
  isNumber(property: string): boolean {
    let any = false;
    for (const value of this.column(property)) {
      if (value === undefined || value === null) continue;
      if (numeric(value) === null) return false;
      any = true;
    }
    return any;
  }

  /** The properties that differ between the runs, config first; without `name`, because `run` covers it. */
  differing(): string[] {
    const keys = this.of.properties.map((one) => one.key);
    const rank = (key: string): number =>
      key.startsWith("config.") ? 0 : key === "state" || key === "tags" || key === "name" ? 1 : 2;
    return keys.filter((key) => key !== "name").sort((a, b) => rank(a) - rank(b));
  }

  /** The config key that splits the runs best: the one with most values, from 2 to 8; never a seed. */
  telling(but = ""): string {
    const fits = this.of.properties.filter(
      (one) =>
        one.key.startsWith("config.") &&
        one.key !== but &&
        !/seed/i.test(one.key) &&
        one.values.length >= 2 &&
        one.values.length <= 8,
    );
    return fits.sort((a, b) => b.values.length - a.values.length)[0]?.key ?? "";
  }

  /** The properties for axes of scatter and parallel: keys that differ, last values of metrics, and duration. */
  measurable(): string[] {
    const keys = this.of.keys
      .filter((one) => one.differs && one.values.every((v) => typeof v !== "object" || v === null))
      .map((one) => one.key);
    const config = keys.filter((key) => key.startsWith("config."));
    const others = keys.filter((key) => !key.startsWith("config."));
    return [...config, ...this.of.metrics.map((one) => `metric.${one.name}`), "duration", ...others];
  }
}

/** The value of a property for one series of a run. */
export function valueOf(table: Table, series: Series, property: string): unknown {
  if (property === "metric") return series.name;
  if (property.startsWith("series.")) return series.tags[property.slice(7)];
  return table.value(property, table.places.get(series.run) ?? -1);
}

/** Return the distinct values: first numbers by size, then text in alphabetical order, then missing values. */
export function distinct(values: unknown[]): unknown[] {
  const found = new Map<string, unknown>();
  for (const value of values) found.set(token(value), value);
  const rank = (value: unknown): number =>
    value === undefined || value === null ? 2 : numeric(value) === null ? 1 : 0;
  return [...found.values()].sort((a, b) => {
    if (rank(a) !== rank(b)) return rank(a) - rank(b);
    const [x, y] = [numeric(a), numeric(b)];
    if (x !== null && y !== null) return x - y;
    return said(a).localeCompare(said(b), undefined, { numeric: true });
  });
}
