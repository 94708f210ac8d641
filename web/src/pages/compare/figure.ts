/** The figure of facets: the layout of its panels, and how to draw them, on the screen or in a file. */
import type { Curve, Facets, Panel } from "./facets";
import { facetTitle } from "./facets";
import type { Pen } from "./pen";
import { scale, ticks, type Scale } from "./scale";

export type Ink = {
  ground: string;
  ink: string;
  ink2: string;
  ink3: string;
  line: string;
  soft: string;
  raised: string;
};
export type Cell = {
  panel: Panel;
  x: number;
  y: number;
  w: number;
  h: number;
  left: boolean;
  bottom: boolean;
  head: string;
};
export type Figure = {
  width: number;
  height: number;
  cells: Cell[];
  facets: Facets;
  log: boolean;
  seconds: boolean;
  alpha: number;
  xTitle: string;
  yTitle: string;
  rowHeads: { y: number; text: string }[];
};

export const INKS: Record<"light" | "dark", Ink> = {
  light: {
    ground: "#ffffff",
    ink: "#1c1e21",
    ink2: "#55595f",
    ink3: "#6e737a",
    line: "#dfdfdb",
    soft: "#ececea",
    raised: "#ffffff",
  },
  dark: {
    ground: "#1b1d20",
    ink: "#e7e8ea",
    ink2: "#a9adb3",
    ink3: "#8b9098",
    line: "#303439",
    soft: "#282b30",
    raised: "#1b1d20",
  },
};

const LEFT = 46;
const GAP = 14;
const HEAD = 20;
const FOOT = 24;
const TITLE = 18;
const FADED = 0.3; // the strength of a mean where fewer than half of its runs have points

export type Shape = {
  rows: string;
  cols: string;
  log: boolean;
  seconds: boolean;
  alpha: number;
  yTitle: string;
  height?: number;
};

/** Lay out the panels in a width; a single row of many columns wraps into several lines. */
export function layout(facets: Facets, width: number, shape: Shape): Figure {
  const wraps = facets.rows.length === 1;
  // Each column has its own y labels.
  const own = new Set(facets.panels.flat().map((panel) => panel.y)).size > 1 && shape.cols === "metric";
  const least = wraps ? (width < 520 ? 200 : 240) : 150;
  const count = facets.cols.length;
  const room = Math.max(1, Math.floor((width - LEFT) / (least + (own ? LEFT : GAP))));
  const columns = wraps ? balanced(count, Math.min(count, room)) : count;
  const lines = wraps ? Math.ceil(count / columns) : facets.rows.length;
  const between = own ? LEFT : GAP;
  const full = wraps ? width : Math.max(width, LEFT + count * (least + between));
  const w = (full - LEFT - 8 - (columns - 1) * between) / columns;
  const h =
    shape.height ??
    Math.max(150, Math.min(columns === 1 && lines === 1 ? 440 : 260, w * (columns === 1 ? 0.55 : 0.74)));
  const cells: Cell[] = [];
  const rowHeads: Figure["rowHeads"] = [];
  let y = 4;
  for (let line = 0; line < lines; line++) {
    const heads = wraps ? Boolean(shape.cols) : line === 0 && Boolean(shape.cols);
    if (!wraps) {
      rowHeads.push({ y: y + 13, text: facetTitle(shape.rows, facets.rows[line]) });
      y += TITLE;
    } else if (shape.rows) {
      if (line === 0) rowHeads.push({ y: y + 13, text: facetTitle(shape.rows, facets.rows[0]) });
      if (line === 0) y += TITLE;
    }
    if (heads) y += HEAD;
    for (let column = 0; column < columns; column++) {
      const at = wraps ? line * columns + column : column;
      if (at >= count) break;
      const panel = facets.panels[wraps ? 0 : line][at];
      const bottom = wraps ? at + columns >= count : line === lines - 1;
      cells.push({
        panel,
        x: LEFT + column * (w + between),
        y,
        w,
        h,
        left: column === 0 || own,
        bottom,
        head: heads ? facetTitle(shape.cols, facets.cols[at]) : "",
      });
    }
    y += h + (line === lines - 1 ? FOOT : wraps && (line + 2) * columns > count ? FOOT + 2 : 12);
  }
  return {
    width: full,
    height: y + 16,
    cells,
    facets,
    log: shape.log,
    seconds: shape.seconds,
    alpha: shape.alpha,
    xTitle: shape.seconds ? "time since the start" : "step",
    yTitle: shape.yTitle,
    rowHeads,
  };
}

/** The fewest columns that need no more lines: 7 panels are better in lines of 4 and 3 than of 5 and 2. */
function balanced(count: number, most: number): number {
  return Math.ceil(count / Math.ceil(count / most));
}

export function scales(figure: Figure, cell: Cell): { x: Scale; y: Scale } {
  return {
    x: scale(figure.facets.x, cell.x, cell.x + cell.w),
    y: scale(cell.panel.y, cell.y + cell.h, cell.y, figure.log),
  };
}

/** Draw the whole figure. */
export function draw(pen: Pen, figure: Figure, ink: Ink): void {
  for (const { y, text } of figure.rowHeads)
    pen.text(LEFT, y, text, { color: ink.ink, weight: 600, size: 12, most: figure.width - LEFT - 8 });
  for (const cell of figure.cells) {
    drawAxes(pen, figure, cell, ink);
    drawCurves(pen, figure, cell, cell.panel.curves, cell.panel.curves.length > 12 ? 1.1 : 1.4);
  }
  pen.text(LEFT + (figure.width - LEFT) / 2, figure.height - 4, figure.xTitle, { color: ink.ink3, anchor: "middle" });
  if (figure.yTitle)
    pen.text(11, figure.height / 2 - 10, figure.yTitle, {
      color: ink.ink3,
      anchor: "middle",
      turn: true,
      most: figure.height - 30,
    });
}

/** Dim the figure and draw some curves on top, so that a moving pointer does not repaint all curves. */
export function drawLit(pen: Pen, figure: Figure, ink: Ink, lit: (curve: Curve) => boolean): void {
  for (const cell of figure.cells) {
    if (cell.panel.curves.length === 0) continue;
    pen.rect(cell.x, cell.y - 2, cell.w, cell.h + 2, ink.raised, 0.84);
    drawCurves(pen, figure, cell, cell.panel.curves.filter(lit), 2);
  }
}

function drawAxes(pen: Pen, figure: Figure, cell: Cell, ink: Ink): void {
  const { x, y, w, h, panel } = cell;
  const by = scales(figure, cell);
  if (cell.head) pen.text(x, y - 6, cell.head, { color: ink.ink2, weight: 550, size: 11.5, most: w });
  for (const tick of ticks(by.y, Math.max(2, h / 42))) {
    const at = Math.round(by.y.at(tick.value)) + 0.5;
    pen.line([x, x + w], [at, at], { color: ink.soft, width: 1 });
    if (cell.left) pen.text(x - 6, at + 3.5, tick.label, { color: ink.ink3, anchor: "end", size: 10.5 });
  }
  for (const tick of ticks(by.x, Math.max(2, w / 76), figure.seconds ? "seconds" : "number")) {
    if (!figure.seconds && !Number.isInteger(tick.value)) continue;
    const at = Math.round(by.x.at(tick.value)) + 0.5;
    pen.line([at, at], [y, y + h], { color: ink.soft, width: 1 });
    // Keep the first and last label inside the panel, so that they do not overlap those of its neighbours.
    const half = tick.label.length * 3.2;
    const anchor = at + half > x + w ? "end" : at - half < x ? "start" : "middle";
    if (cell.bottom)
      pen.text(
        anchor === "end" ? Math.min(at + 8, x + w) : anchor === "start" ? Math.max(at - 4, x) : at,
        y + h + 14,
        tick.label,
        { color: ink.ink3, anchor, size: 10.5 },
      );
  }
  pen.line([x, x + w], [y + h + 0.5, y + h + 0.5], { color: ink.line, width: 1 });
  if (panel.curves.length === 0) pen.text(x + w / 2, y + h / 2, "no runs", { color: ink.ink3, anchor: "middle" });
}

function drawCurves(pen: Pen, figure: Figure, cell: Cell, curves: Curve[], width: number): void {
  const { x, y, w, h } = cell;
  const { alpha } = figure;
  const behind = alpha * (curves.length > 4 ? 0.08 : 0.2); // many raw traces would hide the smoothed curves
  const by = scales(figure, cell);
  pen.within(x, y - 2, w, h + 4, () => {
    for (const curve of curves) {
      const [xs, ys] = [pixels(curve.x, by.x), pixels(curve.y, by.y)];
      const floor = (column: ArrayLike<number>): Float64Array =>
        pixels(column, by.y).map((value, i) => (Number.isNaN(value) && Number.isFinite(column[i]) ? y + h : value));
      const edges = curve.low && curve.high ? [floor(curve.low), floor(curve.high)] : null;
      const raw = curve.raw;
      if (raw) pen.line(pixels(raw.x, by.x), pixels(raw.y, by.y), { color: curve.color, width: 1, alpha: behind });
      for (const { from, to, faded } of stretches(curve)) {
        const part = (column: Float64Array): Float64Array => column.subarray(from, to);
        const strength = faded ? alpha * FADED : alpha;
        if (edges) pen.band(part(xs), part(edges[0]), part(edges[1]), curve.color, 0.2 * strength);
        pen.line(part(xs), part(ys), {
          color: curve.color,
          width: curve.low ? Math.max(1.8, width) : width,
          dash: curve.dash,
          alpha: strength,
        });
      }
      if (curve.x.length === 1) pen.dot(xs[0], by.y.at(curve.y[0]), 3, curve.color, alpha);
    }
    for (const curve of curves)
      for (const at of thinned(curve.nan.map((value) => by.x.at(value)))) pen.triangle(at, y + h, 4, curve.color);
  });
}

/** Cut a curve where it begins or ceases to be faded; each part begins where the one before ends. */
export function stretches(curve: Curve): { from: number; to: number; faded: boolean }[] {
  const size = curve.x.length;
  const found: { from: number; to: number; faded: boolean }[] = [];
  for (let from = 0; from < size;) {
    const faded = curve.faded?.[from] ?? false;
    let to = from + 1;
    while (to < size && (curve.faded?.[to] ?? false) === faded) to += 1;
    found.push({ from: Math.max(0, from - 1), to, faded });
    from = to;
  }
  return found;
}

/** Drop marks that would overlap the one before. */
function thinned(places: number[]): number[] {
  const found: number[] = [];
  for (const place of places.sort((a, b) => a - b))
    if (found.length === 0 || place - found[found.length - 1] >= 9) found.push(place);
  return found;
}

function pixels(values: ArrayLike<number>, by: Scale): Float64Array {
  return Float64Array.from(values, (value) => by.at(value));
}

export type Near = { cell: Cell; curve: Curve; at: number; px: number; py: number };

/** Find the curve nearest to a point of the figure, at most `reach` pixels away. */
export function near(figure: Figure, px: number, py: number, reach = 28): Near | null {
  const cell = figure.cells.find(
    (one) => px >= one.x - 4 && px <= one.x + one.w + 4 && py >= one.y - 8 && py <= one.y + one.h + 8,
  );
  if (!cell) return null;
  const by = scales(figure, cell);
  const value = by.x.back(px);
  let best: Near | null = null;
  let least = reach;
  for (const curve of cell.panel.curves) {
    const i = closest(curve.x, value);
    if (i < 0) continue;
    for (let j = Math.max(0, i - 1); j <= Math.min(curve.x.length - 1, i + 1); j++) {
      const [qx, qy] = [by.x.at(curve.x[j]), by.y.at(curve.y[j])];
      const off = Math.hypot((qx - px) * 0.6, qy - py);
      if (off < least) {
        least = off;
        best = { cell, curve, at: j, px: qx, py: qy };
      }
    }
  }
  return best;
}

function closest(x: ArrayLike<number>, value: number): number {
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= value) low = middle;
    else high = middle;
  }
  return x.length === 0 ? -1 : Math.abs(x[low] - value) <= Math.abs((x[high] ?? Infinity) - value) ? low : high;
}
