import { describe, expect, it } from "vitest";
import { LIGHT } from "../src/lib/palette";
import { axis, wide } from "../src/pages/compare/axis";
import { along, category, colours } from "../src/pages/compare/colour";
import { distinct, said, Table, token } from "../src/pages/compare/data";
import { escape, SvgPen } from "../src/pages/compare/pen";
import { comparison } from "./made";

const table = new Table(
  comparison([{ lr: 0.1, opt: "sgd" }, { lr: 0.001, opt: "adam" }, { lr: 10 }], [{ name: "a" }, { name: "a" }, {}]),
);

describe("values of runs", () => {
  it("are one only if they are equal: a number is not the text of it, and nothing is not a dash", () => {
    const values = [1, "1", true, "true", "—", null, [1], ["1"], "nan", 1.5, 1.5];
    expect(new Set(values.map(token)).size).toBe(10);
    expect(token(undefined)).toBe(token(null));
  });

  it("come in the order that a person expects: numbers by size, text by letters, nothing last", () => {
    expect(distinct([10, 9, "nan", "b", null, 9, "a10", "a2", undefined])).toEqual([
      9,
      10,
      "nan",
      "a2",
      "a10",
      "b",
      undefined,
    ]);
  });

  it("are found by name: keys, last values, and what a run is", () => {
    expect(table.column("config.lr")).toEqual([0.1, 0.001, 10]);
    expect(table.column("config.opt")).toEqual(["sgd", "adam", undefined]);
    expect(table.column("metric.loss")).toEqual([0, 1, 2]);
    expect(table.names).toEqual(["a run0", "a run1", "run2"]);
    expect(table.column("nothing")).toEqual([undefined, undefined, undefined]);
    expect([table.isNumber("config.lr"), table.isNumber("config.opt")]).toEqual([true, false]);
  });

  it("are said so that nothing looks like something else", () => {
    expect([null, "", 0.1, ["a", "b"], ["/bin/sh", "-c"]].map((one) => said(one))).toEqual([
      "—",
      "“”",
      "0.1",
      "a, b",
      "/bin/sh -c",
    ]);
  });
});

describe("axes", () => {
  it("place numbers by size, on a logarithmic scale where they span much", () => {
    expect(wide(table, "config.lr")).toBe(true);
    const by = axis(table, "config.lr", 0, 400, true);
    const [small, middle, large] = [0.001, 0.1, 10].map(by.at);
    expect(middle - small).toBeCloseTo(large - middle, 6);
    expect(by.ticks.map((tick) => tick.label)).toEqual(["0.001", "0.1", "10"]);
    expect(by.ticks.map(by.where)).toEqual([small, middle, large]);
    expect(by.at("text")).toBeNaN();
  });

  it("give each text a place of its own, those without a value too", () => {
    const by = axis(table, "config.opt", 0, 300, false);
    expect(["adam", "sgd", undefined].map(by.at)).toEqual([50, 150, 250]);
    expect(by.ticks.map((tick) => tick.label)).toEqual(["adam", "sgd", "—"]);
  });
});

describe("colours", () => {
  it("of a few numbers are spread evenly over the scale", () => {
    const by = colours([0.1, 0.001, 0.01], LIGHT, false);
    expect([0.001, 0.01, 0.1].map(by.of)).toEqual([0, 0.5, 1].map((at) => along(at, false)));
  });

  it("of categories are all different, also past the end of the palette", () => {
    const names = Array.from({ length: 30 }, (_, i) => `n${String(i).padStart(2, "0")}`);
    const by = colours(names, LIGHT, false);
    expect(new Set(names.map(by.of)).size).toBe(30);
    expect(by.of(names[0])).toBe(category(0, LIGHT, false));
    expect(names.map(by.of)).not.toContain(by.of(undefined));
  });
});

describe("a picture as SVG", () => {
  it("takes no text for markup", () => {
    const pen = new SvgPen();
    pen.text(1, 2, "</text><script>", { color: '"><b>' });
    const svg = pen.done(10, 10, "#fff", "<&>");
    expect(svg).not.toMatch(/<script|<b>|<&>/);
    expect(escape("\0'\"")).toBe("\ufffd&#39;&quot;");
  });

  it("breaks a line and a band where a value is not a number", () => {
    const pen = new SvgPen();
    pen.line([0, 1, 2, 3], [0, 1, NaN, 3], { color: "#000" });
    pen.band([0, 1, 2, 3], [0, 0, NaN, 0], [1, 1, 1, 1], "#000", 0.2);
    const svg = pen.done(10, 10, "#fff", "");
    expect(svg).toContain('d="M0 0L1 1M3 3"');
    expect(svg.match(/<polygon/g)).toHaveLength(2);
  });
});
