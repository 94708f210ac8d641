import { describe, expect, it } from "vitest";
import { align, APART, nearest, numberLabels, onOwnScales, stack, sum, timeLabels, timeSplits } from "../src/lib/chart";
import type { Line } from "../src/lib/chart";
import { random } from "./random";

const HOUR = 3_600_000;
const line = (x: number[], y: (number | null)[]): Line => ({ label: "", color: "", x, y });

describe("places", () => {
  it("finds the point that is nearest to the pointer", () => {
    const next = random(4);
    const x = Float64Array.from({ length: 100 }, () => next() * 10).sort();
    for (let i = 0; i < 200; i++) {
      const value = next() * 12 - 1;
      const least = Math.min(...Array.from(x, (one) => Math.abs(one - value)));
      expect(Math.abs(x[nearest(x, value)] - value)).toBe(least);
    }
    expect(nearest([], 1)).toBe(-1);
  });

  it("puts columns on one x, and tells a missing point from a value that is not a number", () => {
    const [x, a, b] = align([
      { x: [1, 3, 5], y: [10, NaN, 50] },
      { x: [3, 4], y: [null, 4] },
    ]);
    expect(Array.from(x)).toEqual([1, 3, 4, 5]);
    expect(Array.from(a)).toEqual([10, null, undefined, 50]);
    expect(Array.from(b)).toEqual([undefined, null, 4, undefined]);
  });

  it("scales several lines to each other's height, and leaves the values of a single one", () => {
    const [a, b] = [line([0, 1, 2], [5, NaN, 7]), line([0, 1], [300, 300])];
    expect(onOwnScales([a, b]).map(({ y }) => y)).toEqual([
      [0, null, 1],
      [0, 0],
    ]);
    expect(onOwnScales([a, b]).map(({ tooltipY }) => tooltipY)).toEqual([a.y, b.y]);
    expect(onOwnScales([a])[0].y).toEqual([5, null, 7]);
    expect(onOwnScales([])).toEqual([]);
  });

  it("keeps every point of every column, whatever their x", () => {
    const next = random(5);
    const columns = Array.from({ length: 5 }, () => {
      const x = [...new Set(Array.from({ length: 40 }, () => Math.floor(next() * 100)))].sort((p, q) => p - q);
      return { x, y: x.map(() => next()) };
    });
    const [x, ...got] = align(columns);
    columns.forEach((column, c) => {
      const held = new Map(Array.from(x, (one, i) => [one, got[c][i]]));
      column.x.forEach((one, i) => expect(held.get(one)).toBe(column.y[i]));
    });
  });

  it("has no place for zero and less on a logarithmic scale", () => {
    expect(align([{ x: [1, 2, 3], y: [1, 0, -1] }], true)[1]).toEqual([1, null, null]);
    expect(align([])).toEqual([[]]);
  });
});

/** What a line is at a moment: its last value, from its first to its last point. */
function held({ x, y }: Line, t: number): number {
  if (t < x[0] || t > x[x.length - 1]) return 0;
  let last = 0;
  for (let i = 0; i < x.length && x[i] <= t; i++) last = y[i] ?? 0;
  return last;
}

describe("lines upon each other", () => {
  const next = random(6);
  const some = Array.from({ length: 6 }, (_, n) =>
    line(
      Array.from({ length: 30 }, (_, i) => 1000 * i + 97 * n + 5000 * (n % 3)),
      Array.from({ length: 30 }, () => next() * 100),
    ),
  );

  it("add up: the highest is the sum of all, at every moment", () => {
    const stacked = stack(some);
    const top = stacked[stacked.length - 1];
    for (let i = 0; i < top.x.length; i++) {
      const plain = some.reduce((all, one) => all + held(one, top.x[i]), 0);
      expect(top.y[i]).toBeCloseTo(plain, 9);
    }
    for (let i = 1; i < stacked.length; i++)
      for (let j = 0; j < top.x.length; j++) expect(stacked[i].y[j]).toBeGreaterThanOrEqual(stacked[i - 1].y[j]!);
  });

  it("are summed into one line that is the same sum", () => {
    const got = sum(some);
    for (const [i, t] of got.x.entries()) {
      const plain = some.reduce((all, one) => all + held(one, t), 0);
      expect(got.y[i]).toBeCloseTo(plain, 9);
    }
    expect(sum([])).toEqual({ x: [], y: [] });
  });

  it("keep their peaks where there are more moments than can be drawn", () => {
    const x = Array.from({ length: 10_000 }, (_, i) => i);
    const got = sum([
      line(
        x,
        x.map((i) => (i === 7777 ? 50 : 1)),
      ),
    ]);
    expect(got.x.length).toBeLessThan(2100);
    expect(Math.max(...got.y)).toBe(50);
  });
});

describe("labels of an axis", () => {
  it("stand at round local times, on the days on which clocks change too", () => {
    for (const day of [Date.UTC(2026, 2, 29), Date.UTC(2026, 9, 25), Date.UTC(2026, 5, 1)]) {
      const splits = timeSplits(day - 12 * HOUR, day + 36 * HOUR, 6 * HOUR);
      expect(splits.map((t) => new Date(t).getHours() % 6)).toEqual(splits.map(() => 0));
      expect(splits.map((t) => new Date(t).getMinutes())).toEqual(splits.map(() => 0));
      expect(splits.length).toBeGreaterThanOrEqual(7);
    }
    const few = timeSplits(Date.UTC(2026, 5, 1, 10, 7), Date.UTC(2026, 5, 1, 10, 43), 600_000);
    expect(timeLabels(few, 600_000)).toEqual(["12:10", "12:20", "12:30", "12:40"]);
  });

  it("are as fine as their steps, and say the date where a day begins", () => {
    const midnight = Date.UTC(2026, 5, 1, 22);
    expect(timeLabels([midnight - HOUR, midnight, midnight + HOUR], HOUR)).toEqual(["23:00", "06-02 00:00", "01:00"]);
    expect(timeLabels([midnight], 86_400_000)).toEqual(["06-02"]);
    expect(timeLabels([midnight + 1500], 500)).toEqual(["00:00:01.500"]);
  });

  it("are never the same for two numbers", () => {
    const cases = [
      [0, 0.5, 1],
      [1e6, 1.00001e6, 1.00002e6],
      [10_000, 20_000, 25_000],
      [1e-9, 2e-9],
      [-2, -1, 0, 1],
    ];
    for (const splits of cases) expect(new Set(numberLabels(splits)).size).toBe(splits.length);
    expect(numberLabels([0, 20_000, null, 3e9])).toEqual(["0", "20k", "", "3G"]);
  });

  it("are apart by ever larger round numbers", () => {
    for (const apart of Object.values(APART)) expect([...apart].sort((a, b) => a - b)).toEqual(apart);
  });
});
