/** The data of a chart: lines, how to stack and align them for uPlot, and the labels of axes. */
import type uPlot from "uplot";
import * as format from "./format";

export type Line = {
  label: string;
  color: string;
  x: ArrayLike<number>;
  y: ArrayLike<number | null>;
  nan?: ArrayLike<number>; // the x of values that are NaN
  smooth?: { x: ArrayLike<number>; y: ArrayLike<number> }; // the same, smoothed
  tooltipY?: ArrayLike<number | null>; // the values for the tooltip, if y is scaled
  dash?: number[];
  width?: number;
  alpha?: number;
  low?: ArrayLike<number | null>; // the edges of a band around the line, at the same x
  high?: ArrayLike<number | null>;
};

export type Mark = { t: number; text: string; color?: string };
export type AxisKind = "time" | "step" | "value";
export type Range = [number, number];

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Allowed distances between labels of an axis: round numbers of steps, and round times in milliseconds. */
export const APART = {
  step: [...[1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((unit) => [unit, 2 * unit, 5 * unit]), 1e8, 1e9],
  time: [
    ...[1, 10, 100, 500],
    ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
    ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
    ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
    ...[1, 2, 7, 30].map((n) => n * DAY),
  ],
};

/** Return the index of the value in sorted x that is nearest to `value`; -1 if x is empty. */
export function nearest(x: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = x.length - 1;
  if (high < 0) return -1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= value) low = middle;
    else high = middle;
  }
  return Math.abs(x[low] - value) <= Math.abs(x[high] - value) ? low : high;
}

/**
 * Put all columns on one sorted x. A column is undefined where it has no point (uPlot connects the neighbours), and
 * null where its value is not finite (uPlot draws a gap).
 */
export function align(
  columns: { x: ArrayLike<number>; y: ArrayLike<number | null> }[],
  log = false,
): uPlot.AlignedData {
  const clean = (value: number | null | undefined): number | null =>
    value === null || value === undefined || !Number.isFinite(value) || (log && value <= 0) ? null : value;
  const first = columns[0]?.x;
  const same = columns.every(({ x }) => x === first || equal(x, first));
  if (same) return [Array.from(first ?? []), ...columns.map(({ y }) => Array.from(y, clean))] as uPlot.AlignedData;
  let size = 0;
  for (const { x } of columns) size += x.length;
  const all = new Float64Array(size);
  let at = 0;
  for (const { x } of columns) {
    all.set(x, at);
    at += x.length;
  }
  all.sort();
  let kept = 0;
  for (let i = 0; i < size; i++) if (i === 0 || all[i] !== all[kept - 1]) all[kept++] = all[i];
  const shared = all.subarray(0, kept);
  const data: unknown[] = [shared];
  for (const { x, y } of columns) {
    const column = new Array<number | null | undefined>(kept);
    let j = 0;
    for (let i = 0; i < x.length; i++) {
      while (shared[j] < x[i]) j += 1;
      column[j] = clean(y[i]);
    }
    data.push(column);
  }
  return data as unknown as uPlot.AlignedData;
}

function equal(a: ArrayLike<number>, b: ArrayLike<number>): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Stack lines: each holds its last value until it ends, and counts as 0 outside. */
export function stack(lines: Line[]): Line[] {
  let times: number[] = [];
  for (const { x } of lines) times.push(...Array.from(x));
  times = [...new Set(times)].sort((a, b) => a - b);
  const floor = new Float64Array(times.length);
  return lines.map((line) => {
    const top = new Float64Array(times.length);
    let j = -1;
    for (let i = 0; i < times.length; i++) {
      while (j + 1 < line.x.length && line.x[j + 1] <= times[i]) j += 1;
      const alive = j >= 0 && times[i] <= line.x[line.x.length - 1];
      floor[i] += alive ? (line.y[j] ?? 0) : 0;
      top[i] = floor[i];
    }
    return { ...line, x: times, y: Array.from(top) };
  });
}

/** Scale each line to 0..1, with its values for the tooltip, to compare times. One alone keeps its values. */
export function onOwnScales(lines: Line[]): Line[] {
  return lines.map((line) => {
    let low = 0;
    let high = 1;
    if (lines.length > 1) {
      [low, high] = [Infinity, -Infinity];
      for (let i = 0; i < line.y.length; i++) {
        const y = line.y[i];
        if (y !== null && Number.isFinite(y)) [low, high] = [Math.min(low, y), Math.max(high, y)];
      }
    }
    const span = high - low || 1;
    const y = Array.from(line.y, (y) => (y !== null && Number.isFinite(y) ? (y - low) / span : null));
    return { ...line, y, tooltipY: line.y };
  });
}

const MOST_SUMS = 2000;

/** Sum lines: each holds its last value until it ends. A long result is thinned, keeping the maximum of each part. */
export function sum(lines: Line[]): { x: number[]; y: number[] } {
  const steps: [number, number][] = [];
  for (const { x, y } of lines) {
    for (let i = 0; i < x.length; i++) steps.push([x[i], (y[i] ?? 0) - (i ? (y[i - 1] ?? 0) : 0)]);
    if (x.length) steps.push([x[x.length - 1] + 1, -(y[x.length - 1] ?? 0)]);
  }
  steps.sort((a, b) => a[0] - b[0]);
  const part = steps.length > MOST_SUMS ? (steps[steps.length - 1][0] - steps[0][0]) / MOST_SUMS : 0;
  const out: { x: number[]; y: number[] } = { x: [], y: [] };
  let now = 0;
  for (let i = 0; i < steps.length;) {
    const t = steps[i][0];
    while (i < steps.length && steps[i][0] === t) now += steps[i++][1];
    const at = out.x.length - 1;
    if (part && at >= 0 && t < out.x[at] + part && i < steps.length) out.y[at] = Math.max(out.y[at], now);
    else {
      out.x.push(t);
      out.y.push(Math.max(0, now));
    }
  }
  return out;
}

/** Where a time axis has its labels: at round local times, also across changes of daylight saving time. */
export function timeSplits(from: number, to: number, step: number): number[] {
  const away = new Date(from).getTimezoneOffset() * 60_000;
  const out: number[] = [];
  for (let local = Math.ceil((from - away) / step) * step; out.length < 1000; local += step) {
    const at = new Date(local); // its UTC fields are the local date and time
    const t =
      step < 3_600_000
        ? local + away
        : new Date(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate(), at.getUTCHours()).getTime();
    if (!(t <= to)) break;
    if (t >= from && t > (out.at(-1) ?? -Infinity)) out.push(t);
  }
  return out;
}

/** Labels of a time axis, as precise as the distance between them needs. */
export function timeLabels(splits: number[], step: number): string[] {
  return splits.map((t, i) => {
    if (step >= 86_400_000) return format.date(t).slice(5);
    const text = step >= 60_000 ? format.clock(t).slice(0, 5) : step >= 1000 ? format.clock(t) : format.clock(t, true);
    const newDay = i > 0 && format.date(t) !== format.date(splits[i - 1]);
    return newDay ? `${format.date(t).slice(5)} ${text.slice(0, 5)}` : text;
  });
}

/** Labels of a number axis: as few digits as keep all labels different. */
export function numberLabels(splits: (number | null)[]): string[] {
  for (let digits = 3; digits <= 8; digits++) {
    const labels = splits.map((v) => (v === null ? "" : tick(v, digits)));
    const shown = labels.filter(Boolean);
    if (new Set(shown).size === shown.length) return labels;
  }
  return splits.map((v) => (v === null ? "" : String(v)));
}

function tick(value: number, digits: number): string {
  const size = Math.abs(value);
  const scaled: [number, string][] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ];
  for (const [unit, name] of scaled)
    if (size >= unit) {
      const by = name === "k" ? 1e3 : unit;
      return `${format.number(value / by, digits)}${name}`;
    }
  return format.number(value, digits);
}
