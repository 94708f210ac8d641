import { describe, expect, it } from "vitest";
import { domainOf, scale, ticks } from "../src/pages/compare/scale";
import { numbers } from "./random";

describe("a scale", () => {
  it("places values so that pixels lead back to them", () => {
    for (const [low, high] of [
      [0, 1],
      [-5, 5],
      [1e-6, 1e6],
    ])
      for (const log of low > 0 ? [false, true] : [false]) {
        const by = scale([low, high], 400, 10, log);
        expect([by.at(low), by.at(high)]).toEqual([400, 10]);
        for (const value of numbers(50, 7, low, high)) expect(by.back(by.at(value)) / value).toBeCloseTo(1, 6);
      }
  });

  it("has equal distances for equal ratios when it is logarithmic, and no place for what has no logarithm", () => {
    const by = scale([0.01, 100], 0, 400, true);
    expect([0.01, 0.1, 1, 10, 100].map(by.at).map(Math.round)).toEqual([0, 100, 200, 300, 400]);
    for (const value of [0, -1, NaN, Infinity]) expect(by.at(value)).toBeNaN();
    expect(scale([0, 1], 0, 1).at(Infinity)).toBeNaN();
  });
});

describe("the range of a scale", () => {
  it("holds all finite values, with a little room", () => {
    const columns = [numbers(100, 8, -3, 9), [NaN, Infinity, null]];
    const [low, high] = domainOf(columns, false);
    const [least, most] = [Math.min(...numbers(100, 8, -3, 9)), Math.max(...numbers(100, 8, -3, 9))];
    expect(low).toBeCloseTo(least - (most - least) * 0.05, 9);
    expect(high).toBeCloseTo(most + (most - least) * 0.05, 9);
  });

  it("is never empty, and leaves out what a logarithm cannot show", () => {
    for (const column of [[], [NaN], [3], [0], [-2, -2]]) {
      const [low, high] = domainOf([column], false);
      expect(low).toBeLessThan(high);
    }
    const [low, high] = domainOf([[-1, 0, 0.1, 10]], true);
    expect(low).toBeGreaterThan(0.05);
    expect(low).toBeLessThanOrEqual(0.1);
    expect(high).toBeGreaterThanOrEqual(10);
  });

  it("is as chosen by hand, where that makes sense", () => {
    expect(domainOf([[0, 1]], false, [-2, 5])).toEqual([-2, 5]);
    expect(domainOf([[1, 10]], true, [0, 100])[0]).toBeGreaterThan(0);
    const [low, high] = domainOf([[0, 1]], false, [7, null]);
    expect([low, high > low]).toEqual([7, true]);
  });
});

describe("ticks", () => {
  it("are round, inside the range, in order, and labelled with what they are", () => {
    for (const [low, high] of [
      [0, 1],
      [-3.7, 12.2],
      [1e-5, 2e-5],
      [100, 1e6],
    ])
      for (const log of low > 0 ? [false, true] : [false]) {
        const found = ticks(scale([low, high], 0, 100, log), 6);
        expect(found.length).toBeGreaterThanOrEqual(log ? 1 : 3);
        const values = found.map((one) => one.value);
        expect([...values].sort((a, b) => a - b)).toEqual(values);
        expect(new Set(found.map((one) => one.label)).size).toBe(found.length);
        for (const { value, label } of found) {
          expect(value).toBeGreaterThanOrEqual(low - 1e-9);
          expect(value).toBeLessThanOrEqual(high + 1e-9);
          const said = Number(label.replaceAll("−", "-").replace("k", "e3").replace("M", "e6"));
          expect(Math.abs(said - value)).toBeLessThanOrEqual(Math.abs(value) * 1e-3);
        }
      }
  });

  it("of seconds stand at whole minutes and hours", () => {
    const found = ticks(scale([0, 4000], 0, 100), 5, "seconds");
    expect(found.map((one) => one.label)).toEqual(["0", "15m 00s", "30m 00s", "45m 00s", "1h 00m"]);
  });
});
