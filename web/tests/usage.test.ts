import { describe, expect, it } from "vitest";
import type { UseShape } from "../src/lib/api";
import { gpuLines, idle, linesOf, measures, spoken } from "../src/pages/run/used.svelte";

const use = (pid: number, series: Record<string, (number | null)[]>): UseShape => ({
  process: `p${pid}`,
  pid,
  parent_pid: 0,
  name: "python",
  host: "camp",
  start_t: 0,
  end_t: null,
  series: Object.fromEntries(
    Object.entries(series).map(([name, value]) => [name, { t: value.map((_, i) => 1000 * i), value }]),
  ),
});

describe("what processes used", () => {
  it("is a line for each, the busiest first, each with the colour of its process", () => {
    const all = [use(1, { cpu_percent: [1, 1] }), use(2, { cpu_percent: [90, null] }), use(3, { memory_bytes: [5] })];
    const lines = linesOf(all, "cpu_percent", (at) => `c${at}`);
    expect(lines.map((one) => [one.label, one.color])).toEqual([
      ["python 2", "c1"],
      ["python 1", "c0"],
    ]);
  });

  it("adds up to all, also where the rest is one line", () => {
    const all = Array.from({ length: 20 }, (_, i) => use(i + 1, { cpu_percent: [i, 2 * i, 3 * i] }));
    const lines = linesOf(all, "cpu_percent", () => "", 5);
    expect(lines.map((one) => one.label).at(-1)).toBe("16 others");
    for (const t of [0, 1000, 2000]) {
      const shown = lines.reduce((sum, one) => sum + (one.y[Array.from(one.x).indexOf(t)] ?? 0), 0);
      const plain = all.reduce((sum, _, i) => sum + i * (t / 1000 + 1), 0);
      expect(shown).toBe(plain);
    }
  });

  it("is named in words, with its unit", () => {
    expect(spoken("disk_busy_percent disk=vda")).toEqual({ words: "Disk busy", of: "vda", unit: "%" });
    expect(spoken("gpu_memory_bytes gpu=0")).toEqual({ words: "GPU memory", of: "0", unit: "bytes" });
    expect(spoken("read_bytes_per_s").unit).toBe("bytes/s");
    expect(spoken("threads")).toEqual({ words: "Threads", of: "", unit: "" });
  });

  it("lists measures once, the usual ones first, and knows those that were never anything but zero", () => {
    const all = [use(1, { threads: [1], memory_bytes: [1] }), use(2, { cpu_percent: [0, null], threads: [2] })];
    expect(measures(all)).toEqual(["cpu_percent", "memory_bytes", "threads"]);
    expect([idle(all, "cpu_percent"), idle(all, "threads")]).toEqual([true, false]);
    expect(gpuLines([use(0, { "gpu_percent gpu=1": [5] })], () => "c").map((one) => one.label)).toEqual(["GPU 1"]);
  });
});
