/** Scales from values to pixels, and their ticks. */
import * as format from "../../lib/format";
import { numberLabels } from "../../lib/chart";

export type Domain = [number, number];
export type Tick = { value: number; label: string };
export type Scale = { domain: Domain; log: boolean; at: (value: number) => number; back: (pixel: number) => number };

/** A scale from a domain to [from, to] pixels; on a log scale, values that are not positive map to NaN. */
export function scale(domain: Domain, from: number, to: number, log = false): Scale {
  const bend = log ? Math.log10 : (value: number): number => value;
  const straight = log ? (value: number): number => 10 ** value : (value: number): number => value;
  const [low, high] = [bend(domain[0]), bend(domain[1])];
  const by = (to - from) / (high - low || 1);
  return {
    domain,
    log,
    at: (value) => (log && value <= 0 ? NaN : Number.isFinite(value) ? from + (bend(value) - low) * by : NaN),
    back: (pixel) => straight(low + (pixel - from) / by),
  };
}

/** The minimum and maximum of all values, with some padding; limits set by hand take precedence. */
export function domainOf(
  columns: Iterable<ArrayLike<number | null>>,
  log: boolean,
  hand: [number | null, number | null] = [null, null],
  room = 0.05,
): Domain {
  let [low, high] = [Infinity, -Infinity];
  for (const column of columns)
    for (let i = 0; i < column.length; i++) {
      const value = column[i];
      if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  if (low > high) [low, high] = log ? [0.1, 1] : [0, 1];
  if (log) {
    const pad = Math.max(0.02, (Math.log10(high) - Math.log10(low)) * room);
    [low, high] = [10 ** (Math.log10(low) - pad), 10 ** (Math.log10(high) + pad)];
  } else {
    const pad = high > low ? (high - low) * room : room ? Math.abs(high) * 0.1 || 1 : 0.5;
    [low, high] = [low - pad, high + pad];
  }
  if (hand[0] !== null && !(log && hand[0] <= 0)) low = hand[0];
  if (hand[1] !== null && !(log && hand[1] <= 0)) high = hand[1];
  return low < high ? [low, high] : [low, low + (Math.abs(low) || 1)];
}

/** Return about `about` ticks at round values. */
export function ticks(scale: Scale, about: number, kind: "number" | "seconds" = "number"): Tick[] {
  const [low, high] = scale.domain;
  if (scale.log) return logTicks(low, high, about);
  const step = kind === "seconds" ? secondsStep((high - low) / about) : round((high - low) / about);
  const found: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && found.length < 60; i++)
    found.push(Number((i * step).toPrecision(12)));
  const labels =
    kind === "seconds" ? found.map((value) => (value === 0 ? "0" : format.duration(value))) : numberLabels(found);
  return found.map((value, i) => ({ value, label: labels[i] }));
}

function round(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const part = step / power;
  return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

function secondsStep(step: number): number {
  if (step < 1) return round(step);
  const known = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  return known.find((one) => one >= step) ?? Math.ceil(step / 86400) * 86400;
}

function logTicks(low: number, high: number, about: number): Tick[] {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const decades = Math.log10(high / low);
  const parts = [
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 2, 3, 5, 7],
    [1, 2, 5],
    [1, 3],
  ].find((some) => decades * some.length <= about * 1.2) ?? [1];
  const every = parts.length === 1 ? Math.max(1, Math.ceil(decades / about)) : 1;
  const found: number[] = [];
  for (let power = from; power <= to; power += every)
    for (const part of parts) {
      const value = part * 10 ** power;
      if (value >= low && value <= high) found.push(Number(value.toPrecision(6)));
    }
  return found.map((value) => ({ value, label: format.number(value, 3) }));
}
