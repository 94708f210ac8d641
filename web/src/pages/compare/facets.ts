/** Arrange the series of many runs by properties: rows x columns x hue x dash, and means over other properties. */
import { ema } from "../../lib/chart";
import type { Series } from "../../lib/api";
import { colours, type Colours } from "./colour";
import { distinct, said, short, token, valueOf, type Table } from "./data";
import { domainOf, type Domain } from "./scale";

export type Curve = {
  id: number;
  label: string;
  runs: string[];
  metric: string;
  color: string;
  dash: number[];
  hueToken: string;
  dashToken: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  low?: ArrayLike<number>;
  high?: ArrayLike<number>;
  raw?: ArrayLike<number>; // y before smoothing
  nan: number[];
};

export type Panel = { row: unknown; col: unknown; curves: Curve[]; y: Domain; title: string };
export type Entry = { token: string; label: string; color: string; dash: number[]; count: number };
export type Facets = {
  rows: unknown[];
  cols: unknown[];
  panels: Panel[][]; // by row, then column
  x: Domain;
  hue: Entry[];
  dash: Entry[];
  colours: Colours;
  curves: Curve[];
  left: string; // a sentence about omitted rows and columns
};

export type Wish = {
  rows: string;
  cols: string;
  hue: string;
  dash: string;
  over: string; // a property, "*" for all properties not shown, or "" for no mean
  band: "std" | "range";
  x: "step" | "time";
  log: boolean;
  smooth: number;
  low: number | null;
  high: number | null;
};

export const ALL_ELSE = "*";
const MOST_ROWS = 24;
const MOST_COLS = 24;
const GRID = 600; // points of a mean if its curves have different x
const DASHES = [[], [6, 4], [2, 3], [9, 3, 2, 3], [14, 4], [4, 2, 2, 2, 2, 2]];

/** Arrange series into panels of curves. */
export function facets(table: Table, series: Series[], wish: Wish, palette: string[], dark: boolean): Facets {
  const of = (one: Series, property: string): unknown => (property ? valueOf(table, one, property) : "");
  const every = (property: string): unknown[] => (property ? distinct(series.map((one) => of(one, property))) : [""]);
  const allRows = every(wish.rows);
  const allCols = every(wish.cols);
  const [rows, cols] = [allRows.slice(0, MOST_ROWS), allCols.slice(0, MOST_COLS)];
  const hues = colours(wish.hue ? series.map((one) => of(one, wish.hue)) : [], palette, dark);
  const dashes = wish.dash ? every(wish.dash) : [];
  const dashPlace = new Map(dashes.map((value, i) => [token(value), i]));

  const groups = new Map<string, Series[]>();
  const shown = [wish.rows, wish.cols, wish.hue, wish.dash].filter(Boolean);
  const apart =
    wish.over === ALL_ELSE
      ? shown
      : [
          ...new Set([
            ...shown,
            ...table.of.keys.filter((one) => one.differs && one.key.startsWith("config.")).map((one) => one.key),
          ]),
        ].filter((key) => key !== wish.over && key !== "run");
  for (const one of series) {
    const tags = wish.over === ALL_ELSE ? "" : JSON.stringify(one.tags);
    const key = wish.over
      ? JSON.stringify([one.name, tags, ...apart.map((property) => token(of(one, property)))])
      : `${one.run}\n${one.name}\n${JSON.stringify(one.tags)}`;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }

  const curves: Curve[] = [];
  const cells = new Map<string, Curve[]>();
  for (const group of groups.values()) {
    const first = group[0];
    const hue = of(first, wish.hue);
    const dash = of(first, wish.dash);
    const base = {
      id: curves.length,
      label: label(table, group, wish.over ? apart : null),
      runs: [...new Set(group.map((one) => one.run))],
      metric: first.name,
      color: wish.hue ? hues.of(hue) : palette[0],
      dash: wish.dash ? DASHES[(dashPlace.get(token(dash)) ?? 0) % DASHES.length] : [],
      hueToken: token(hue),
      dashToken: token(dash),
      nan: group.flatMap((one) => onAxis(table, one, wish.x, one.nan)).slice(0, 20_000),
    };
    const curve = {
      ...base,
      ...(group.length === 1 && !wish.over ? alone(table, first, wish) : mean(table, group, wish)),
    };
    curves.push(curve);
    const cell = `${token(of(first, wish.rows))}\n${token(of(first, wish.cols))}`;
    cells.set(cell, [...(cells.get(cell) ?? []), curve]);
  }

  // All panels share one y domain; if panels are split by metric, each metric has its own.
  const byMetric = wish.rows === "metric" || wish.cols === "metric";
  const domains = new Map<string, Domain>();
  const domain = (metric: string): Domain => {
    const key = byMetric ? metric : "";
    const known = domains.get(key);
    if (known) return known;
    const mine = curves.filter((curve) => !byMetric || curve.metric === metric);
    const found = domainOf(
      mine.flatMap((curve) => [curve.y, ...(curve.low ? [curve.low, curve.high!] : [])]),
      wish.log,
      [wish.low, wish.high],
    );
    domains.set(key, found);
    return found;
  };
  const panels = rows.map((row) =>
    cols.map((col): Panel => {
      const mine = cells.get(`${token(row)}\n${token(col)}`) ?? [];
      const metric =
        wish.rows === "metric" ? String(row) : wish.cols === "metric" ? String(col) : (mine[0]?.metric ?? "");
      const title = [wish.rows && facetTitle(wish.rows, row), wish.cols && facetTitle(wish.cols, col)]
        .filter(Boolean)
        .join(", ");
      return { row, col, curves: mine, y: domain(metric), title };
    }),
  );
  const lost = [
    allRows.length > rows.length && `${allRows.length - rows.length} rows`,
    allCols.length > cols.length && `${allCols.length - cols.length} columns`,
  ].filter(Boolean);
  const count = (match: (curve: Curve) => boolean): number => curves.filter(match).length;
  return {
    rows,
    cols,
    panels,
    x: domainOf(
      curves.map((curve) => curve.x),
      false,
      [null, null],
      0.012,
    ),
    hue: wish.hue
      ? hues.values.map((value) => ({
          token: token(value),
          label: said(value),
          color: hues.of(value),
          dash: [],
          count: count((c) => c.hueToken === token(value)),
        }))
      : [],
    dash: dashes.map((value, i) => ({
      token: token(value),
      label: said(value),
      color: "",
      dash: DASHES[i % DASHES.length],
      count: count((c) => c.dashToken === token(value)),
    })),
    colours: hues,
    curves,
    left: lost.length ? `${lost.join(" and ")} more are not drawn: choose a property with fewer values.` : "",
  };
}

/** Format as "lr = 0.1"; of a metric or a run only the name. */
export const facetTitle = (property: string, value: unknown): string =>
  property === "metric" || property === "run" ? said(value) : `${short(property)} = ${said(value)}`;

function label(table: Table, group: Series[], apart: string[] | null): string {
  const first = group[0];
  const tags = Object.entries(first.tags)
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");
  if (!apart) return [table.names[table.places.get(first.run) ?? -1] ?? first.run, tags].filter(Boolean).join(" ");
  const what = apart
    .filter((key) => key !== "metric")
    .map((key) => `${short(key)} ${said(valueOf(table, first, key))}`);
  const runs = new Set(group.map((one) => one.run)).size;
  return `${what.join(", ") || "mean"} (${runs} ${runs === 1 ? "run" : "runs"})`;
}

/** Keep steps; convert times to seconds since the start of the run, so that runs line up. */
function onAxis(table: Table, series: Series, x: "step" | "time", values: ArrayLike<number>): number[] {
  if (x === "step") return Array.from(values);
  const start = table.of.runs[table.places.get(series.run) ?? -1]?.start_t ?? series.first_x ?? 0;
  return Array.from(values, (t) => (t - start) / 1000);
}

function alone(table: Table, series: Series, wish: Wish): Pick<Curve, "x" | "y" | "raw"> {
  const x = wish.x === "step" ? series.x : onAxis(table, series, wish.x, series.x);
  if (wish.smooth <= 0) return { x, y: series.y };
  return { x, y: ema(series.y, wish.smooth).map((value) => value ?? NaN), raw: series.y };
}

/** The mean of curves with a band: one standard deviation to either side, or from minimum to maximum. */
export function mean(table: Table, group: Series[], wish: Wish): Pick<Curve, "x" | "y" | "low" | "high"> {
  const members = group.map((one) => alone(table, one, wish)).filter((one) => one.x.length > 0);
  if (members.length === 0) return { x: [], y: [] };
  const x = shared(members.map((one) => one.x));
  const columns = members.map((one) => onto(x, one.x, one.y));
  const [y, low, high] = [new Float64Array(x.length), new Float64Array(x.length), new Float64Array(x.length)];
  for (let i = 0; i < x.length; i++) {
    let [n, sum, squares, least, most] = [0, 0, 0, Infinity, -Infinity];
    for (const column of columns) {
      const value = column[i];
      if (!Number.isFinite(value)) continue;
      n += 1;
      sum += value;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    const middle = n ? sum / n : NaN;
    for (const column of columns) if (Number.isFinite(column[i])) squares += (column[i] - middle) ** 2;
    const spread = n > 1 ? Math.sqrt(squares / (n - 1)) : 0;
    y[i] = middle;
    low[i] = n === 0 ? NaN : wish.band === "range" ? least : middle - spread;
    high[i] = n === 0 ? NaN : wish.band === "range" ? most : middle + spread;
  }
  return { x, y, low, high };
}

/** A common x for curves: their own if equal, the union if that is small, otherwise a uniform grid. */
function shared(columns: ArrayLike<number>[]): ArrayLike<number> {
  const first = columns[0];
  const same = columns.every(
    (x) =>
      x.length === first.length &&
      x[0] === first[0] &&
      Array.prototype.every.call(x, (value: number, i: number) => value === first[i]),
  );
  if (same) return first;
  const all = new Set<number>();
  for (const x of columns) for (let i = 0; i < x.length && all.size <= 4 * GRID; i++) all.add(x[i]);
  if (all.size <= 2 * GRID) return Float64Array.from([...all].sort((a, b) => a - b));
  let [low, high] = [Infinity, -Infinity];
  for (const x of columns) {
    low = Math.min(low, x[0]);
    high = Math.max(high, x[x.length - 1]);
  }
  return Float64Array.from({ length: GRID }, (_, i) => low + ((high - low) * i) / (GRID - 1));
}

/** Interpolate a curve linearly at other x; NaN outside of its range, and next to a NaN. */
function onto(grid: ArrayLike<number>, x: ArrayLike<number>, y: ArrayLike<number>): Float64Array {
  if (grid === x) return Float64Array.from(y);
  const out = new Float64Array(grid.length).fill(NaN);
  let j = 0;
  for (let i = 0; i < grid.length; i++) {
    const at = grid[i];
    if (at < x[0] || at > x[x.length - 1]) continue;
    while (j < x.length - 1 && x[j + 1] <= at) j += 1;
    out[i] = x[j] === at || j === x.length - 1 ? y[j] : y[j] + ((y[j + 1] - y[j]) * (at - x[j])) / (x[j + 1] - x[j]);
  }
  return out;
}
