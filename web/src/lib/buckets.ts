/** Series in buckets, as the server sums them up from all points: merge buckets, and take means over series. */

/** Bucket i begins at `origin + i * width`; `x` is that of its last point. Only buckets with points are there. */
export type Buckets = {
  width: number;
  origin: number;
  index: Float64Array;
  x: Float64Array;
  count: Float64Array; // of finite values
  mean: Float64Array; // NaN where none is finite
  m2: Float64Array; // squared deviations from the mean, summed
  smooth: Float64Array; // the smoothed value at x
};

/** The mean over series: at each x how many have a value there, their points, and the deviation of all points. */
export type Mean = {
  x: Float64Array;
  y: Float64Array;
  low: Float64Array;
  high: Float64Array;
  members: Float64Array;
  points: Float64Array;
  deviation: Float64Array;
};

const FILLED = 0.9; // the share of buckets that each series must fill, where series have other steps
const FEWEST = 8; // buckets: no wider ones are made to fill them

/** Merge buckets into wider ones; widths are powers of two, so each lies inside one of these. */
export function coarser(of: Buckets, width: number): Buckets {
  const by = width / of.width;
  if (by <= 1) return of;
  const size = of.index.length;
  const out = {
    index: new Float64Array(size),
    x: new Float64Array(size),
    count: new Float64Array(size),
    mean: new Float64Array(size).fill(NaN),
    m2: new Float64Array(size),
    smooth: new Float64Array(size).fill(NaN),
  };
  let at = -1;
  for (let i = 0; i < size; i++) {
    const index = Math.floor(of.index[i] / by);
    if (at < 0 || out.index[at] !== index) {
      at += 1;
      out.index[at] = index;
      out.x[at] = of.x[i];
    }
    const count = of.count[i];
    if (count === 0) continue;
    // Chan: means and squared deviations of two parts give those of both, also where the mean is large.
    const before = out.count[at];
    const off = before ? of.mean[i] - out.mean[at] : 0;
    out.count[at] = before + count;
    out.mean[at] = before ? out.mean[at] + (off * count) / (before + count) : of.mean[i];
    out.m2[at] += of.m2[i] + (before ? (off * off * before * count) / (before + count) : 0);
    out.x[at] = of.x[i];
    out.smooth[at] = of.smooth[i];
  }
  const cut = Object.fromEntries(Object.entries(out).map(([name, column]) => [name, column.slice(0, at + 1)]));
  return { width, origin: of.origin, ...(cut as typeof out) };
}

/**
 * The mean over series: in each bucket every series that has points there counts once, by the mean of its points or by
 * its smoothed value. The band is one standard deviation of these to either side, or from the least to the greatest.
 */
export function meanOver(series: Buckets[], smooth: boolean, band: "std" | "range", time: boolean): Mean {
  const members = onOneGrid(series.filter((one) => one.index.length > 0));
  const width = members[0]?.width ?? 1;
  const places = [...new Set(members.flatMap((one) => Array.from(one.index)))].sort((a, b) => a - b);
  const slot = new Map(places.map((index, i) => [index, i]));
  const column = (value = 0): Float64Array => new Float64Array(places.length).fill(value);
  const [x, y, m2, least, most] = [column(-Infinity), column(NaN), column(), column(Infinity), column(-Infinity)];
  const [count, points, middle, deviation] = [column(), column(), column(), column()];
  let end = -Infinity;
  for (const one of members)
    for (let i = 0; i < one.index.length; i++) {
      const at = slot.get(one.index[i])!;
      x[at] = Math.max(x[at], one.x[i] - one.origin);
      end = Math.max(end, x[at]);
      const value = smooth ? one.smooth[i] : one.mean[i];
      if (!Number.isFinite(value)) continue;
      count[at] += 1;
      const off = count[at] > 1 ? value - y[at] : 0;
      y[at] = count[at] > 1 ? y[at] + off / count[at] : value;
      m2[at] += off * (value - y[at]);
      least[at] = Math.min(least[at], value);
      most[at] = Math.max(most[at], value);
      const away = points[at] ? one.mean[i] - middle[at] : 0;
      const all = points[at] + one.count[i];
      deviation[at] += one.m2[i] + (away * away * points[at] * one.count[i]) / all;
      middle[at] = points[at] ? middle[at] + (away * one.count[i]) / all : one.mean[i];
      points[at] = all;
    }
  const [low, high] = [column(NaN), column(NaN)];
  for (let i = 0; i < places.length; i++) {
    // A smoothed value is that at the end of its bucket; a mean stands in the middle of it, as far as there are points.
    if (!smooth) {
      const from = places[i] * width;
      x[i] = (from + Math.min(from + width - (time ? 0 : Math.min(1, width)), Math.max(from, end))) / 2;
    }
    if (count[i] === 0) continue;
    const spread = count[i] > 1 ? Math.sqrt(m2[i] / (count[i] - 1)) : 0;
    low[i] = band === "range" ? least[i] : y[i] - spread;
    high[i] = band === "range" ? most[i] : y[i] + spread;
    deviation[i] = points[i] > 1 ? Math.sqrt(deviation[i] / (points[i] - 1)) : 0;
  }
  return { x, y, low, high, members: count, points, deviation };
}

/**
 * Bring series to one width: that of the widest. If their steps differ, buckets are made wider until nearly all of a
 * series' buckets have points: otherwise each bucket would be the mean of other series than its neighbour.
 */
function onOneGrid(series: Buckets[]): Buckets[] {
  const widest = Math.max(...series.map((one) => one.width));
  let now = series.map((one) => coarser(one, widest));
  while (!fits(now)) {
    const wider = now.map((one) => coarser(one, 2 * one.width));
    if (Math.max(...wider.map(extent)) < FEWEST) break;
    now = wider;
  }
  return now;
}

const extent = (one: Buckets): number => one.index[one.index.length - 1] - one.index[0] + 1;

function fits(series: Buckets[]): boolean {
  const [first] = series;
  if (series.every((one) => one.index.length >= FILLED * extent(one))) return true;
  // Equal steps fit as they are, also of a series that began later or ended before the others.
  const longest = series.reduce((a, b) => (b.index.length > a.index.length ? b : a), first);
  return series.every((one) => {
    const from = longest.index.indexOf(one.index[0]);
    return from >= 0 && one.index.every((index, i) => index === longest.index[from + i]);
  });
}
