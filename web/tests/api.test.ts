import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { address, decode, numeric } from "../src/lib/api";
import { throttled } from "../src/lib/live";

describe("requests", () => {
  it("have names in the path, the rest in the query, and leave out what is not said", () => {
    expect(address("/api/about", {})).toBe("/api/about");
    expect(address("/api/runs", { where: "a = 1 & b", limit: 0, sort: "", group: null })).toBe(
      "/api/runs?where=a+%3D+1+%26+b&limit=0",
    );
    expect(address("/api/runs/{run}/logs", { run: "a/b $& c", after: 3 })).toBe(
      "/api/runs/a%2Fb%20%24%26%20c/logs?after=3",
    );
  });

  it("read numbers that JSON had to spell", () => {
    expect([1.5, "inf", "-inf", "1", null, true, undefined].map(numeric)).toEqual([
      1.5,
      Infinity,
      -Infinity,
      null,
      null,
      null,
      null,
    ]);
    expect(numeric("nan")).toBeNaN();
  });
});

describe("points", () => {
  it("are read from the columns behind the head, at whatever length the head has", () => {
    for (const name of ["loss", "ü", "x".repeat(50)]) {
      const columns = [1, 2, 3, 0.5, NaN, -1, 7, 8];
      const one = { run: "r", name, tags: {}, count: 3, exact: true, first_x: 1, last_x: 3, nan: [2], since: false };
      const series = [
        { ...one, x: [0, 3], y: [3, 3] },
        { ...one, x: [6, 1], y: [7, 1] },
      ];
      const head = new TextEncoder().encode(JSON.stringify({ series, cursor: { counts: { 1: 3 } } }));
      const base = Math.ceil((4 + head.length) / 8) * 8;
      const buffer = new ArrayBuffer(base + columns.length * 8);
      const padded = name !== "loss"; // the length counts the padding, or not
      new DataView(buffer).setUint32(0, padded ? base - 4 : head.length, true);
      new Uint8Array(buffer, 4, base - 4).fill(32).set(head);
      new Float64Array(buffer, base).set(columns);
      const got = decode(buffer);
      expect(got.cursor).toEqual({ counts: { 1: 3 } });
      expect(got.series.map(({ x, y }) => [Array.from(x), Array.from(y)])).toEqual([
        [
          [1, 2, 3],
          [0.5, NaN, -1],
        ],
        [[7], [8]],
      ]);
      expect(got.series[0].name).toBe(name);
    }
  });
});

describe("what changes often", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("is asked for at most once in a while, and once more after the last change", async () => {
    let count = 0;
    const { call, stop } = throttled(() => void (count += 1), 1000);
    for (let i = 0; i < 10; i++) call();
    expect(count).toBe(1);
    await vi.advanceTimersByTimeAsync(999);
    expect(count).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(count).toBe(2);
    await vi.advanceTimersByTimeAsync(5000);
    expect(count).toBe(2);
    call();
    call();
    stop();
    await vi.advanceTimersByTimeAsync(5000);
    expect(count).toBe(3);
  });
});
