import { describe, expect, it } from "vitest";
import type { LineShape, ProcessShape } from "../src/lib/api";
import { byTime } from "../src/lib/lines";
import { merged } from "../src/pages/run/processes";

const line = (id: number, t: number): LineShape => ({
  id,
  t,
  kind: "output",
  level: 20,
  text: "",
  process: "",
  host: "",
  pid: 0,
  cut: false,
});
const process = (id: string, pid: number, speaks: boolean, start_t: number): ProcessShape => ({
  ...{ id, name: "", pid, parent_pid: 0, host: "camp", state: "done", cause: "" },
  ...{ start_t, end_t: null, argv: [], speaks },
});

describe("lines", () => {
  it("of several processes are in the order of time, and as they were stored where times are equal", () => {
    const lines = [line(1, 10), line(2, 30), line(3, 20), line(4, 30)];
    expect(byTime(lines).map((one) => one.id)).toEqual([1, 3, 2, 4]);
    expect(lines.map((one) => one.id)).toEqual([1, 2, 3, 4]);
  });
});

describe("processes", () => {
  it("count once, whether they were measured before they spoke or after", () => {
    const got = merged([process("a", 1, false, 5), process("b", 1, true, 9), process("c", 2, true, 7)]);
    expect(got.map((one) => [one.id, one.start_t])).toEqual([
      ["b", 5],
      ["c", 7],
    ]);
    expect(merged([process("b", 1, true, 9), process("a", 1, false, 5)]).map((one) => one.id)).toEqual(["b"]);
  });
});
