/** Runs, series and comparisons as the server would tell them. */
import type { Comparison, Row, Series } from "../src/lib/api";

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
    ...changes,
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
