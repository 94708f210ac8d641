/** Colours by value: categories from the palette, numbers from a sequential colour scale. */
import { numeric } from "../../lib/api";
import { distinct, token } from "./data";

// From low to high; both ends contrast with the background of their theme.
const SCALES = {
  light: ["#d99a16", "#d8602a", "#b32d5e", "#6d2a86", "#2b2f77"],
  dark: ["#8f7cf0", "#d066c4", "#f0707a", "#f5a35c", "#f3e08a"],
};

export function mix(a: string, b: string, at: number): string {
  const part = (hex: string, i: number): number => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `#${[0, 1, 2]
    .map((i) =>
      Math.round(part(a, i) + (part(b, i) - part(a, i)) * at)
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

/** Return the colour of the scale at `at`, from 0 to 1; grey if `at` is not finite. */
export function along(at: number, dark: boolean): string {
  const stops = SCALES[dark ? "dark" : "light"];
  if (!Number.isFinite(at)) return dark ? "#8b9098" : "#6e737a";
  const place = Math.min(1, Math.max(0, at)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(place));
  return mix(stops[low], stops[low + 1], place - low);
}

/** Return the colour of the n-th category; after the last one, the palette repeats lighter or darker. */
export function category(at: number, palette: string[], dark: boolean): string {
  const turn = Math.floor(at / palette.length);
  const color = palette[at % palette.length];
  return turn === 0 ? color : mix(color, dark === (turn % 2 === 1) ? "#ffffff" : "#000000", 0.35 + 0.1 * (turn >> 1));
}

export type Colours = { numbers: boolean; values: unknown[]; of: (value: unknown) => string };

/** Colours for a list of values. Up to 12 numbers are spread evenly, so that 0.001, 0.01 and 0.1 differ clearly. */
export function colours(values: unknown[], palette: string[], dark: boolean): Colours {
  const known = distinct(values);
  const there = known.filter((value) => value !== undefined && value !== null);
  const numbers = there.length > 1 && there.every((value) => numeric(value) !== null);
  const quiet = dark ? "#8b9098" : "#8a8f96";
  if (!numbers) {
    const place = new Map(there.map((value, i) => [token(value), i]));
    return {
      numbers,
      values: known,
      of: (value) => (place.has(token(value)) ? category(place.get(token(value))!, palette, dark) : quiet),
    };
  }
  const sizes = there.map((value) => numeric(value)!).filter(Number.isFinite);
  const [low, high] = [sizes[0], sizes[sizes.length - 1]];
  const few = sizes.length <= 12;
  const rank = new Map(sizes.map((value, i) => [value, i]));
  const of = (value: unknown): string => {
    const size = numeric(value);
    if (size === null) return quiet;
    return along(
      few ? (rank.get(size) ?? NaN) / Math.max(1, sizes.length - 1) : (size - low) / (high - low || 1),
      dark,
    );
  };
  return { numbers, values: known, of };
}
