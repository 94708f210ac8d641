import { describe, expect, it } from "vitest";
import { coarser, meanOver, type Buckets } from "../src/lib/buckets";
import { buckets } from "./made";
import { numbers, random } from "./random";

const SIZE = 1000;
const STEPS = Array.from({ length: SIZE }, (_, i) => i);
const near = (got: ArrayLike<number>, wanted: ArrayLike<number>, least = 1e-9): void => {
  expect(got.length).toBe(wanted.length);
  for (let i = 0; i < got.length; i++) {
    if (Number.isNaN(wanted[i])) expect(got[i]).toBeNaN();
    else expect(Math.abs(got[i] - wanted[i])).toBeLessThanOrEqual(1e-6 * Math.abs(wanted[i]) + least);
  }
};
const sameAs = (got: Buckets, wanted: Buckets): void => {
  for (const name of ["index", "x", "count", "mean", "m2"] as const) near(got[name], wanted[name]);
};

describe("buckets merged into wider ones", () => {
  it("have the count, mean and deviations of all their points, also where the mean is large", () => {
    for (const base of [0, 1e9]) {
      const y = numbers(SIZE, 3).map((one) => base + one);
      for (const width of [1, 2, 8, 256, 4096]) {
        sameAs(coarser(buckets(STEPS, y), width), buckets(STEPS, y, width));
        sameAs(coarser(buckets(STEPS, y, 2), width), buckets(STEPS, y, Math.max(2, width)));
      }
    }
  });

  it("leave out what is not a number, and keep the smoothed value of the last that has one", () => {
    const x = [-5, -1, 0, 3, 4, 6, 7];
    const y = [1, NaN, NaN, 2, 8, 9, Infinity];
    const got = coarser(buckets(x, y), 4);
    sameAs({ ...got, x: Float64Array.from([0]) }, { ...buckets(x, y, 4), x: Float64Array.from([0]) });
    expect(Array.from(got.smooth)).toEqual([100, NaN, 200, 900]);
    expect(Array.from(got.x)).toEqual([-5, -1, 3, 6]);
  });
});

/** The mean over series and its deviation by plain computation, at each bucket. */
function plain(all: { x: number[]; y: number[] }[], width: number): { y: number[]; spread: number[]; count: number[] } {
  const out = { y: [] as number[], spread: [] as number[], count: [] as number[] };
  const parts = all.map(({ x, y }) => buckets(x, y, width));
  for (const index of [...new Set(parts.flatMap((one) => [...one.index]))].sort((a, b) => a - b)) {
    const means = parts.flatMap((one) => {
      const at = one.index.indexOf(index);
      return at >= 0 && one.count[at] ? [one.mean[at]] : [];
    });
    const middle = means[0] + means.reduce((sum, one) => sum + (one - means[0]), 0) / means.length;
    const squares = means.reduce((sum, one) => sum + (one - middle) ** 2, 0);
    out.y.push(middle);
    out.spread.push(means.length > 1 ? Math.sqrt(squares / (means.length - 1)) : 0);
    out.count.push(means.length);
  }
  return out;
}

describe("a mean over series", () => {
  it("is that of the means of their buckets, with a band of one standard deviation", () => {
    for (const base of [0, 1e9]) {
      const all = [1, 2, 3, 4, 5, 6].map((seed) => ({ x: STEPS, y: numbers(SIZE, seed).map((one) => base + one) }));
      for (const widths of [[1], [8], [1, 4, 16]]) {
        const got = meanOver(
          all.map(({ x, y }, i) => buckets(x, y, widths[i % widths.length])),
          false,
          "std",
          false,
        );
        const wanted = plain(all, Math.max(...widths));
        near(got.y, wanted.y);
        near(
          got.high.map((high, i) => (high - got.low[i]) / 2),
          wanted.spread,
          base ? 3e-7 : 1e-9, // a number near 1e9 has no finer digits
        );
        expect(Array.from(got.points).reduce((a, b) => a + b)).toBe(6 * SIZE);
      }
    }
  });

  it("tells the deviation of all points in a bucket", () => {
    const all = [1, 2].map((seed) => numbers(8, seed));
    const got = meanOver(
      all.map((y) => buckets(STEPS.slice(0, 8), y, 8)),
      false,
      "std",
      false,
    );
    const values = all.flat();
    const middle = values.reduce((a, b) => a + b) / 16;
    near(got.deviation, [Math.sqrt(values.reduce((sum, one) => sum + (one - middle) ** 2, 0) / 15)]);
  });

  it("goes from the least to the greatest, where that is asked for, and takes smoothed values at the ends", () => {
    const [a, b] = [buckets([0, 1, 2, 3], [1, 2, 3, 4], 2), buckets([0, 1, 2, 3], [5, 6, 7, 8], 2)];
    const got = meanOver([a, b], false, "range", false);
    expect([got.x, got.y, got.low, got.high].map((one) => Array.from(one))).toEqual([
      [0.5, 2.5],
      [3.5, 5.5],
      [1.5, 3.5],
      [5.5, 7.5],
    ]);
    const smooth = meanOver([a, b], true, "std", false);
    expect([smooth.x, smooth.y].map((one) => Array.from(one))).toEqual([
      [1, 3],
      [350, 550],
    ]);
  });

  it("has wider buckets where steps differ, so that each is a mean over the same series", () => {
    const next = random(9);
    const all = [10, 7, 3].map((every) => {
      const x = STEPS.filter((step) => step % every === 0);
      return { x, y: x.map(() => every + next()) };
    });
    const got = meanOver(
      all.map(({ x, y }) => buckets(x, y)),
      false,
      "std",
      false,
    );
    const wanted = plain(all, 16);
    near(got.y, wanted.y);
    expect(Math.min(...got.members.slice(0, -1))).toBe(3); // the last is cut short by the end
  });

  it("stays at single steps where these are the same, however far apart, also if one begins late or ends early", () => {
    const x = STEPS.map((step) => 100 * step);
    const parts = [x, x.slice(0, 400), x.slice(500)].map((some, seed) => buckets(some, numbers(some.length, seed)));
    const got = meanOver(parts, false, "std", false);
    expect(Array.from(got.x)).toEqual(x);
    expect([got.members[0], got.members[450], got.members[999]]).toEqual([2, 1, 2]);
  });

  it("lies along the time since each began", () => {
    const parts = [5000, 90_000].map((start) => buckets([start, start + 8, start + 16], [1, 2, 3], 8, start));
    const got = meanOver(parts, false, "std", true);
    expect(Array.from(got.x)).toEqual([4, 12, 16]);
    expect(Array.from(got.y)).toEqual([1, 2, 3]);
    expect(meanOver([], false, "std", true).x.length).toBe(0);
  });
});
