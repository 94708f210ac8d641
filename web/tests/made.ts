/** Runs, series and comparisons as the server would tell them. */
import type { Comparison, Row, Series } from "../src/lib/api";
import type { Buckets } from "../src/lib/buckets";

export function run(id: string, changes: Partial<Row> = {}): Row {
  return {
    id,
    name: id,
    project: "p",
    experiment: "",
    state: "done",
    cause: "",
    alive: false,
    start_t: 1000,
    end_t: 2000,
    duration_s: 1,
    silent_s: null,
    hosts: [],
    tags: [],
    star: false,
    description: "",
    bar: null,
    metric: "",
    trend: [],
    last: null,
    line: "",
    level: 0,
    values: {},
    ...changes,
  };
}

export function series(run: string, x: number[], y: number[], changes: Partial<Series> = {}): Series {
  return {
    run,
    name: "loss",
    tags: {},
    x: Float64Array.from(x),
    y: Float64Array.from(y),
    count: x.length,
    exact: true,
    first_x: x[0] ?? null,
    last_x: x.at(-1) ?? null,
    nan: [],
    since: false,
    buckets: buckets(x, y),
    ...changes,
  };
}

/** Points in buckets, by plain computation: a mean, and all that deviates from it; smoothed is 100 times the mean. */
export function buckets(x: number[], y: number[], width = 1, origin = 0): Buckets {
  const parts = new Map<number, number[]>();
  x.forEach((at, i) => {
    const index = Math.floor((at - origin) / width);
    parts.set(index, [...(parts.get(index) ?? []), i]);
  });
  const index = [...parts.keys()].sort((a, b) => a - b);
  const values = index.map((one) =>
    parts
      .get(one)!
      .map((i) => y[i])
      .filter(Number.isFinite),
  );
  const mean = values.map((some) => some[0] + some.reduce((sum, one) => sum + (one - some[0]), 0) / some.length);
  return {
    width,
    origin,
    index: Float64Array.from(index),
    x: Float64Array.from(index, (one) => x[parts.get(one)!.at(-1)!]),
    count: Float64Array.from(values, (some) => some.length),
    mean: Float64Array.from(mean),
    m2: Float64Array.from(values, (some, i) => some.reduce((sum, one) => sum + (one - mean[i]) ** 2, 0)),
    smooth: Float64Array.from(mean, (one) => 100 * one),
  };
}

/** Runs with these configs; what differs among them is found as the server does. */
export function comparison(configs: Record<string, unknown>[], runs: Partial<Row>[] = []): Comparison {
  const names = [...new Set(configs.flatMap((one) => Object.keys(one)))];
  const keys = names.map((name) => {
    const values = configs.map((one) => one[name] ?? null);
    const missing = configs.flatMap((one, place) => (name in one ? [] : [place]));
    const differs = new Set(values.map((value) => JSON.stringify(value))).size > 1;
    return { key: `config.${name}`, differs, values, missing, types: [] };
  });
  return {
    runs: configs.map((_, place) => run(`run${place}`, runs[place])),
    keys,
    metrics: [{ name: "loss", runs: configs.length, last: configs.map((_, place) => place) }],
    properties: keys.filter((one) => one.differs).map((one) => ({ key: one.key, values: [...new Set(one.values)] })),
  };
}
