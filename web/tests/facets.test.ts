import { describe, expect, it } from "vitest";
import { LIGHT } from "../src/lib/palette";
import { Table } from "../src/pages/compare/data";
import { ALL_ELSE, facets, mean, type Curve, type Wish } from "../src/pages/compare/facets";
import { draw, INKS, layout, stretches } from "../src/pages/compare/figure";
import { SvgPen } from "../src/pages/compare/pen";
import { buckets, comparison, series } from "./made";
import { numbers } from "./random";

const WISH: Wish = {
  rows: "",
  cols: "",
  hue: "",
  dash: "",
  over: "",
  band: "std",
  x: "step",
  log: false,
  smooth: 0,
  low: null,
  high: null,
};
const STEPS = Array.from({ length: 40 }, (_, i) => i);
const SEEDS = [1, 2, 3, 4].map((seed) => numbers(40, seed));

describe("a mean of curves", () => {
  it("is the mean, with a band of one standard deviation, by plain computation", () => {
    const group = SEEDS.map((y, i) => series(`run${i}`, STEPS, y));
    const got = mean(group, WISH);
    expect(Array.from(got.x)).toEqual(STEPS);
    for (const i of STEPS) {
      const values = SEEDS.map((y) => y[i]);
      const middle = values.reduce((a, b) => a + b) / 4;
      const spread = Math.sqrt(values.map((v) => (v - middle) ** 2).reduce((a, b) => a + b) / 3);
      expect(got.y[i]).toBeCloseTo(middle, 12);
      expect(got.low![i]).toBeCloseTo(middle - spread, 12);
      expect(got.high![i]).toBeCloseTo(middle + spread, 12);
    }
  });

  it("has a band from the least to the greatest, where that is asked for", () => {
    const group = SEEDS.map((y, i) => series(`run${i}`, STEPS, y));
    const got = mean(group, { ...WISH, band: "range" });
    for (const i of STEPS) {
      expect(got.low![i]).toBe(Math.min(...SEEDS.map((y) => y[i])));
      expect(got.high![i]).toBe(Math.max(...SEEDS.map((y) => y[i])));
    }
  });

  it("is over those curves that have a number there", () => {
    const got = mean([series("run0", [0, 1, 2], [1, NaN, NaN]), series("run1", [0, 1, 2], [3, 5, NaN])], WISH);
    expect(Array.from(got.y)).toEqual([2, 5, NaN]);
    expect(Array.from(got.of!.members)).toEqual([2, 1, 0]);
    expect(mean([series("run0", [], [])], WISH)).toEqual({ x: [], y: [], exact: true });
  });
});

describe("a mean of runs that end at different steps", () => {
  const long = [1, 2, 3, 4, 5].map((seed) => numbers(40, seed));
  const group = long.map((y, i) => series(`run${i}`, STEPS.slice(0, 8 * (i + 1)), y.slice(0, 8 * (i + 1))));
  const got = { ...mean(group, WISH), label: "" };

  it("fades where fewer than half of them have points", () => {
    expect(got.faded!.map((faded, i) => (faded ? i : -1)).filter((i) => i >= 0)).toEqual(
      STEPS.filter((step) => 2 * group.filter((one) => one.count > step).length < 5),
    );
    expect(stretches(got as Curve)).toEqual([
      { from: 0, to: 24, faded: false },
      { from: 23, to: 40, faded: true },
    ]);
  });

  it("is drawn fainter there", () => {
    const table = new Table(comparison(long.map((_, seed) => ({ seed }))));
    const made = facets(table, group, { ...WISH, over: ALL_ELSE }, LIGHT, false);
    const pen = new SvgPen();
    draw(pen, layout(made, 600, { ...WISH, seconds: false, alpha: 1, yTitle: "" }), INKS.light);
    const alphas = [...pen.done(600, 400, "", "").matchAll(/<path[^>]*stroke-opacity="([^"]*)"/g)].map((one) => one[1]);
    expect(alphas).toContain("0.3");
  });
});

describe("the colour of a mean", () => {
  const configs = [0.1, 0.01].flatMap((lr) => [0, 1, 2].map((seed) => ({ lr, seed })));
  const table = new Table(comparison(configs));
  const all = configs.map((_, i) => series(`run${i}`, STEPS, numbers(40, i)));

  it("is its own where it is over curves of several colours, and not that of one of them", () => {
    const got = facets(table, all, { ...WISH, hue: "run", over: "config.seed" }, LIGHT, false);
    expect(got.curves.map((curve) => curve.label)).toEqual(["lr 0.1 (3 runs)", "lr 0.01 (3 runs)"]);
    expect(new Set(got.curves.map((curve) => curve.color)).size).toBe(2);
    expect(got.hue.map((entry) => [entry.label, entry.color])).toEqual(
      got.curves.map((curve) => [curve.label, curve.color]),
    );
    for (const curve of got.curves) expect(got.hue.map((entry) => entry.token)).toContain(curve.hueToken);
  });

  it("is that of the value that all its curves have", () => {
    const got = facets(table, all, { ...WISH, hue: "config.lr", over: "config.seed" }, LIGHT, false);
    expect(got.curves.map((curve) => curve.color)).toEqual([0.1, 0.01].map(got.colours.of));
  });
});

describe("curves laid out", () => {
  const configs = [0.1, 0.01].flatMap((lr) =>
    ["sgd", "adam"].flatMap((opt) => [0, 1].map((seed) => ({ lr, opt, seed }))),
  );
  const table = new Table(
    comparison(
      configs,
      configs.map((_, i) => ({ start_t: 1000 * i })),
    ),
  );
  const all = configs.map((_, i) => series(`run${i}`, STEPS, numbers(40, i)));
  const lay = (wish: Partial<Wish>) => facets(table, all, { ...WISH, ...wish }, LIGHT, false);

  it("are all there, each in the panel of its own values", () => {
    const got = lay({ rows: "config.lr", cols: "config.opt", hue: "config.seed" });
    expect([got.rows, got.cols]).toEqual([
      [0.01, 0.1],
      ["adam", "sgd"],
    ]);
    expect(got.panels.flat().map((panel) => panel.curves.length)).toEqual([2, 2, 2, 2]);
    for (const panel of got.panels.flat())
      for (const curve of panel.curves)
        for (const id of curve.runs) {
          const config = configs[Number(id.slice(3))];
          expect([config.lr, config.opt]).toEqual([panel.row, panel.col]);
        }
    expect(got.hue.map((entry) => [entry.label, entry.count])).toEqual([
      ["0", 4],
      ["1", 4],
    ]);
  });

  it("are joined into means over one property, or over all that is not shown", () => {
    expect(lay({}).curves.length).toBe(8);
    expect(lay({ over: "config.seed" }).curves.map((curve) => curve.runs.length)).toEqual([2, 2, 2, 2]);
    const got = lay({ over: ALL_ELSE, hue: "config.lr" });
    expect(got.curves.map((curve) => curve.runs.length)).toEqual([4, 4]);
    const plain = all.slice(0, 4).reduce((sum, one) => sum + one.y[7], 0) / 4;
    expect(got.curves.find((curve) => curve.runs.includes("run0"))!.y[7]).toBeCloseTo(plain, 12);
  });

  it("start together on an axis of time, and keep what they were before smoothing", () => {
    const timed = configs.map((_, i) => {
      const times = STEPS.map((n) => 1000 * i + 500 * n);
      return series(`run${i}`, times, numbers(40, i), { buckets: buckets(times, numbers(40, i), 1, 1000 * i) });
    });
    const got = facets(table, timed, { ...WISH, x: "time", smooth: 0.5 }, LIGHT, false);
    for (const curve of got.curves) expect(Array.from(curve.x)).toEqual(STEPS.map((n) => n / 2));
    expect(Array.from(got.curves[3].raw!.y)).toEqual(numbers(40, 3));
    expect(got.curves[3].y[39]).toBe(100 * got.curves[3].raw!.y[39]);
  });

  it("have a scale that holds them and their bands", () => {
    const got = lay({ over: "config.seed" });
    const [low, high] = got.panels[0][0].y;
    for (const curve of got.curves)
      for (const i of STEPS) {
        expect(curve.low![i]).toBeGreaterThanOrEqual(low);
        expect(curve.high![i]).toBeLessThanOrEqual(high);
      }
  });

  it("say what was left out where there are too many panels", () => {
    const many = Array.from({ length: 30 }, (_, n) => ({ n }));
    const got = facets(
      new Table(comparison(many)),
      many.map((_, i) => series(`run${i}`, [0], [1])),
      { ...WISH, cols: "config.n" },
      LIGHT,
      false,
    );
    expect(got.cols.length).toBe(24);
    expect(got.left).toContain("6 columns more are not drawn");
  });
});
