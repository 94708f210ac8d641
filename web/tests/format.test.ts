import { describe, expect, it } from "vitest";
import * as format from "../src/lib/format";
import { numbers } from "./random";

const read = (text: string): number => Number(text.replaceAll("−", "-"));

describe("number", () => {
  it("shows any size with four digits, whole numbers whole, and nothing for nothing", () => {
    const cases: [number | null | undefined, string][] = [
      [null, ""],
      [undefined, ""],
      [0, "0"],
      [-0.5, "−0.5"],
      [1 / 3, "0.3333"],
      [12345, "12345"],
      [999_999, "999999"],
      [1_000_000, "1e6"],
      [1234567, "1.23e6"],
      [0.0001, "0.0001"],
      [0.00001234, "1.23e−5"],
      [-0.00001234, "−1.23e−5"],
      [NaN, "NaN"],
      [Infinity, "∞"],
      [-Infinity, "−∞"],
    ];
    for (const [value, text] of cases) expect(format.number(value)).toBe(text);
  });

  it("never shows another number than it was given, but for the digits that are left out", () => {
    for (const power of [-12, -6, -3, 0, 3, 6, 12])
      for (const part of numbers(200, power + 100, -10, 10)) {
        const value = part * 10 ** power;
        expect(Math.abs(read(format.number(value)) - value)).toBeLessThanOrEqual(Math.abs(value) * 5.1e-3);
        expect(Math.abs(read(format.number(value, 8)) - value)).toBeLessThanOrEqual(Math.abs(value) * 5.1e-7);
      }
  });
});

describe("value", () => {
  it("shows what was given so that it can be copied back", () => {
    const cases: [unknown, string][] = [
      [20240115, "20240115"],
      [-0.5, "-0.5"],
      [1 + 1e-15, "1"],
      [0.1 + 0.2, "0.3"],
      [1e-7, "1e-7"],
      [1e21, "1e21"],
      [NaN, "nan"],
      [-Infinity, "-inf"],
      [true, "true"],
      ["text", "text"],
      [null, "null"],
      [undefined, ""],
      [{ a: [1] }, '{"a":[1]}'],
    ];
    for (const [value, text] of cases) expect(format.value(value)).toBe(text);
    for (const value of numbers(500, 3, -1e6, 1e6)) expect(Number(format.value(value, 17))).toBe(value);
  });
});

describe("sizes and shares", () => {
  it("shows bytes in the unit that leaves a number from 1 to 999", () => {
    const cases: [number | null, string][] = [
      [0, "0 B"],
      [999, "999 B"],
      [1000, "1.0 kB"],
      [1536, "1.5 kB"],
      [99_950, "100 kB"],
      [999_499, "999 kB"],
      [999_960, "1.0 MB"],
      [3_000_000, "3.0 MB"],
      [2e18, "2000 PB"],
      [-1500, "-1.5 kB"],
      [null, ""],
      [NaN, ""],
    ];
    for (const [value, text] of cases) expect(format.bytes(value)).toBe(text);
  });

  it("labels an axis of bytes without saying anything twice", () => {
    expect(format.byteLabels([0, 1e9, 2e9, null, 2.01e9])).toEqual(["0 B", "1 GB", "2 GB", "", "2 GB"]);
    expect(format.byteLabels([1e9, 1.01e9, 1.1e9])).toEqual(["1 GB", "", "1.1 GB"]);
  });

  it("groups thousands, and says shares in percent", () => {
    expect(format.count(1234567)).toBe("1\u202f234\u202f567");
    expect(format.count(999)).toBe("999");
    expect([null, 0, 0.055, 0.29, 0.5, 0.996, 1, 1.2].map((one) => format.percent(one))).toEqual([
      "",
      "0.0%",
      "5.5%",
      "29%",
      "50%",
      "99%",
      "100%",
      "100%",
    ]);
  });
});

describe("times", () => {
  it("says a duration by its two largest units, and carries what is rounded up", () => {
    const cases: [number | null, string][] = [
      [null, ""],
      [Infinity, ""],
      [-1, "0ms"],
      [0.042, "42ms"],
      [0.9996, "1.0s"],
      [1.25, "1.3s"],
      [12.3, "12s"],
      [59.4, "59s"],
      [59.6, "1m 00s"],
      [245, "4m 05s"],
      [3599.6, "1h 00m"],
      [11_220, "3h 07m"],
      [2 * 86400 + 4 * 3600 + 59 * 60, "2d 4h"],
    ];
    for (const [seconds, text] of cases) expect(format.duration(seconds)).toBe(text);
  });

  it("says how long ago a moment was, in one unit", () => {
    const now = Date.UTC(2026, 10, 17, 12);
    const ago = (seconds: number): string => format.ago(now - seconds * 1000, now);
    expect([0, 4, 59, 61, 3700, 90_000].map(ago)).toEqual(["now", "now", "59s ago", "1m ago", "1h ago", "1d ago"]);
    expect(ago(61 * 86400)).toBe("2026-09-17");
    expect(ago(-100)).toBe("now");
    expect(format.ago(null, now)).toBe("");
  });

  it("shows the local time of a moment, also where the clocks change", () => {
    const summer = Date.UTC(2026, 9, 25, 0, 30, 5, 7);
    expect(format.moment(summer)).toBe("2026-10-25 02:30:05");
    expect(format.moment(summer + 3_600_000)).toBe("2026-10-25 02:30:05");
    expect(format.moment(summer + 7_200_000)).toBe("2026-10-25 03:30:05");
    expect(format.clock(summer, true)).toBe("02:30:05.007");
    expect(format.moment(null)).toBe("");
  });
});

describe("sentence", () => {
  it("begins with a capital and ends with a full stop, once", () => {
    expect(format.sentence("this link has expired: ask for a new one")).toBe(
      "This link has expired: ask for a new one.",
    );
    expect(format.sentence("Is it `vedette ui`?")).toBe("Is it `vedette ui`?");
    expect(format.sentence("")).toBe(".");
  });
});
