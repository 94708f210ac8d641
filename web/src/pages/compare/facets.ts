/** Arrange the series of many runs by properties: rows x columns x hue x dash, and means over other properties. */
import type { Series } from "../../lib/api";
import { meanOver } from "../../lib/buckets";
import { keyOf } from "../../lib/points.svelte";
import { category, colours, type Colours } from "./colour";
import { distinct, said, short, token, valueOf, type Table } from "./data";
import { domainOf, type Domain } from "./scale";

export type Curve = {
  id: number;
  key: string; // of its series, or of the first of them
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
  raw?: { x: ArrayLike<number>; y: ArrayLike<number> }; // before smoothing
  nan: number[];
  size: number; // of how many series it is
  exact: boolean; // it has every point, not only the extremes of each pixel
  of?: { members: ArrayLike<number>; points: ArrayLike<number>; deviation: ArrayLike<number> }; // of a mean
  faded?: boolean[]; // where fewer than half of the runs of a mean have points
};

export type Panel = { row: unknown; col: unknown; curves: Curve[]; y: Domain; title: string };
export type Entry = { token: string; label: string; color: string; dash: number[]; count: number };
export type Facets = {
  rows: unknown[];
  cols: unknown[];
  panels: Panel[][]; // by row, then column
  x: Domain;
  hue: Entry[];
  means: boolean; // entries of hue are means with a colour of their own
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
const MIXED = "\n"; // begins the token of a mean over several hues; no token of a value does
const MOST_ROWS = 24;
const MOST_COLS = 24;
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
    const mixed = Boolean(wish.hue) && group.some((one) => token(of(one, wish.hue)) !== token(hue));
    const base = {
      id: curves.length,
      key: keyOf(first),
      label: label(table, group, wish.over ? apart : null),
      runs: [...new Set(group.map((one) => one.run))],
      metric: first.name,
      size: group.length,
      color: wish.hue && !mixed ? hues.of(hue) : palette[0],
      dash: wish.dash ? DASHES[(dashPlace.get(token(dash)) ?? 0) % DASHES.length] : [],
      hueToken: mixed ? MIXED : token(hue),
      dashToken: token(dash),
      nan: group.flatMap((one) => onAxis(table, one, wish.x, one.nan)).slice(0, 20_000),
    };
    const curve = {
      ...base,
      ...(wish.over ? mean(group, wish) : alone(table, first, wish)),
    };
    curves.push(curve);
    const cell = `${token(of(first, wish.rows))}\n${token(of(first, wish.cols))}`;
    cells.set(cell, [...(cells.get(cell) ?? []), curve]);
  }

  // A mean over curves of several hues is none of them: it has a colour, and an entry of the legend, of its own.
  const means = curves.filter((curve) => curve.hueToken === MIXED);
  for (const [i, curve] of means.entries()) {
    curve.hueToken = `${MIXED}${curve.label}\n${curve.metric}`;
    curve.color = category(i, palette, dark);
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
    hue: [
      ...means.map((curve) => ({ token: curve.hueToken, label: curve.label, color: curve.color, dash: [], count: 1 })),
      ...(wish.hue ? hues.values : []).map((value) => ({
        token: token(value),
        label: said(value),
        color: hues.of(value),
        dash: [],
        count: count((c) => c.hueToken === token(value)),
      })),
    ].filter((entry) => entry.count > 0 || means.length === 0),
    dash: dashes.map((value, i) => ({
      token: token(value),
      label: said(value),
      color: "",
      dash: DASHES[i % DASHES.length],
      count: count((c) => c.dashToken === token(value)),
    })),
    means: means.length > 0,
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

function alone(table: Table, series: Series, wish: Wish): Pick<Curve, "x" | "y" | "raw" | "exact"> {
  const x = wish.x === "step" ? series.x : onAxis(table, series, wish.x, series.x);
  const { buckets, exact } = series;
  if (wish.smooth <= 0 || !buckets) return { x, y: series.y, exact };
  return { x: onAxis(table, series, wish.x, buckets.x), y: buckets.smooth, raw: { x, y: series.y }, exact: true };
}

/** The mean of series with a band: one standard deviation to either side, or from minimum to maximum. */
export function mean(group: Series[], wish: Wish): Pick<Curve, "x" | "y" | "low" | "high" | "of" | "faded" | "exact"> {
  const series = group.flatMap((one) => (one.buckets?.index.length ? [one.buckets] : []));
  if (series.length === 0) return { x: [], y: [], exact: true };
  const seconds = wish.x === "time";
  const { x, y, low, high, ...of } = meanOver(series, wish.smooth > 0, wish.band, seconds);
  return {
    x: seconds ? x.map((ms) => ms / 1000) : x,
    y,
    low,
    high,
    of,
    faded: Array.from(of.members, (count) => 2 * count < series.length),
    exact: true,
  };
}
