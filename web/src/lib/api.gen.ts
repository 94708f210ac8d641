/**
 * What the server takes and answers, as its own description has it (/api/openapi.json).
 * Made by web/api_types.py: do not edit it, run `npm run types`.
 */

/** What is served, and how. */
export type About = {
  version: string;
  read_only: boolean;
  hub: boolean;
  home: string;
  project: string;
  projects: string[];
  now_t: number;
};

/** A progress bar. */
export type BarShape = {
  id: string;
  msg: string;
  done: number;
  total: number | null;
  fraction: number | null;
  eta_s: number | null;
  state: string;
  start_t: number | null;
  end_t: number | null;
};

/** Something that differs, and how likely it is the cause: weights go from 1 to 0. */
export type Cause = {
  kind: string;
  key: string;
  a: unknown;
  b: unknown;
  weight: number;
  text: string;
};

/** The code that was run: its files, where it comes from, and what was changed since the last commit. */
export type Code = {
  manifest: CodeFile[];
  git: Record<string, unknown>;
  diff: string;
};

/** A code file that differs; `reached`: the program imports it, as far as we can see. */
export type CodeChange = {
  path: string;
  change: "added" | "changed" | "removed";
  diff: string;
  sort: string;
  reached: boolean;
};

/** A file of the code that was run. */
export type CodeFile = {
  path: string;
  digest: string;
  size: number;
  mode: number | string;
};

/** A column that the list can show, and how many of the newest runs have a value in it. */
export type Column = {
  name: string;
  count: number;
};

/** The words of both commands. */
export type Commands = {
  a: string[];
  b: string[];
};

/** Runs side by side; every list of values is in the order of `runs`. */
export type Comparison = {
  runs: Row[];
  keys: Key[];
  metrics: Metric[];
  properties: Property[];
};

/** Times in milliseconds, and values; None: not a finite number. */
export type CurveShape = {
  t: number[];
  value: (number | null)[];
};

/** How many lines there are in each of equal parts of a time range, by level. */
export type Density = {
  from_t: number;
  to_t: number;
  counts: Record<string, number[]>;
};

/** It is done. */
export type Done = {
  id: string;
};

/** A series; `x` and `y` say where its columns are after the header: [offset in float64s, count]. */
export type Drawn = {
  run: string;
  name: string;
  tags: Record<string, string>;
  x: [number, number];
  y: [number, number];
  count: number;
  exact: boolean;
  first_x: number | null;
  last_x: number | null;
  nan: number[];
  since: boolean;
};

/** What to change; fields that are left out stay as they are. */
export type Edit = {
  star?: boolean | null;
  tags?: Record<string, boolean>;
  description?: string | null;
  notes?: string | null;
  name?: string | null;
};

/** How a run ended. */
export type End = {
  state: string;
  cause: string;
  duration_s: number | null;
};

/** How both runs ended. */
export type Ends = {
  a: End;
  b: End;
};

/** Two runs, and why b differs from a; the most likely cause first. */
export type Explanation = {
  a: Row;
  b: Row;
  causes: Cause[];
  sections: Sections;
  outcome: Outcome;
};

/** Why a request was not answered. */
export type Fault = {
  error: string;
};

/** A file of a run. */
export type FileShape = {
  name: string;
  digest: string;
  size: number;
  media: string;
  t: number;
};

/** The files of a run. */
export type Files = {
  files: FileShape[];
};

/** The header of the answer; the columns follow it. */
export type Head = {
  series: Drawn[];
  cursor: Since;
};

/** A key, with one value for each run. A run that lacks the key has None, and its index is in `missing`. */
export type Key = {
  key: string;
  differs: boolean;
  values: unknown[];
  missing: number[];
  types: string[];
};

/** One line. */
export type LineShape = {
  id: number;
  t: number;
  kind: string;
  level: number;
  text: string;
  process: string;
  host: string;
  pid: number;
  cut: boolean;
};

/** Lines, the oldest first; `first` and `last`: there are none before these, or after them. */
export type Lines = {
  rows: LineShape[];
  first: boolean;
  last: boolean;
};

/** A mark: a moment that the run named. */
export type MarkShape = {
  t: number;
  text: string;
};

/** A metric, how many of the runs have it, and its last value in each. */
export type Metric = {
  name: string;
  runs: number;
  last: (number | "-inf" | "inf" | "nan" | null)[];
};

/** A metric that both runs have; `first_step` is None if they are equal at every step that both have. */
export type MetricPair = {
  name: string;
  tags: Record<string, string>;
  first_step: number | null;
  first_t: number | null;
  equal_before: number;
  common: number;
  a_last: number | "-inf" | "inf" | "nan" | null;
  b_last: number | "-inf" | "inf" | "nan" | null;
  delta: number | "-inf" | "inf" | "nan" | null;
  a_best: number | "-inf" | "inf" | "nan" | null;
  b_best: number | "-inf" | "inf" | "nan" | null;
  a_steps: number | null;
  b_steps: number | null;
  telling: boolean;
};

/** What has changed: which runs, and what kind of change it was. */
export type News = {
  runs: string[];
  spans: boolean;
  events: boolean;
  points: string[];
  missed: boolean;
  hub: boolean;
};

/** An empty body. */
export type Nothing = Record<string, never>;

/** One series; without tags: all series of that name. */
export type Of = {
  run: string;
  name: string;
  tags?: Record<string, string> | null;
};

/** One run with all its details. */
export type OneRun = {
  id: string;
  name: string;
  project: string;
  experiment: string;
  state: string;
  cause: string;
  alive: boolean;
  start_t: number | null;
  end_t: number | null;
  duration_s: number | null;
  silent_s: number | null;
  hosts: string[];
  tags: string[];
  star: boolean;
  description: string;
  bar: BarShape | null;
  metric: string;
  trend: (number | null)[];
  last: number | null;
  line: string;
  level: number;
  values: Record<string, unknown>;
  config: Record<string, unknown>;
  summary: Record<string, unknown>;
  attrs: Record<string, unknown>;
  notes: string;
  argv: string[];
  cwd: string;
  git: Record<string, unknown>;
  host_info: Record<string, unknown>;
  tries: TryShape[];
  processes: ProcessShape[];
  bars: BarShape[];
  series: SeriesShape[];
  files: FileShape[];
  marks: MarkShape[];
  questions: QuestionShape[];
  refused: Record<string, number>;
};

/** The results of both runs; `left_out`: how many metrics were not compared. */
export type Outcome = {
  metrics: MetricPair[];
  only_a: string[];
  only_b: string[];
  left_out: number;
  speed: Speed;
  usage: Record<string, UsePair>;
  end: Ends;
};

/** A package whose versions differ; None: not installed. */
export type PackagePair = {
  name: string;
  a: string | null;
  b: string | null;
};

/** A key whose values differ. */
export type Pair = {
  key: string;
  a: unknown;
  b: unknown;
};

/** A process of a run; `speaks`: it has logged something itself. */
export type ProcessShape = {
  id: string;
  name: string;
  pid: number;
  parent_pid: number;
  host: string;
  state: string;
  cause: string;
  start_t: number | null;
  end_t: number | null;
  argv: string[];
  speaks: boolean;
};

/** A key in which runs differ, and its distinct values, sorted, numbers first. */
export type Property = {
  key: string;
  values: unknown[];
};

/** A question that waits for an answer. */
export type QuestionShape = {
  id: string;
  prompt: string;
  password: boolean;
  t: number;
};

/** Hide a run, or bring it back; `force`: even if it is running. */
export type Remove = {
  undo?: boolean;
  force?: boolean;
};

/** A run, as a row of the list. */
export type Row = {
  id: string;
  name: string;
  project: string;
  experiment: string;
  state: string;
  cause: string;
  alive: boolean;
  start_t: number | null;
  end_t: number | null;
  duration_s: number | null;
  silent_s: number | null;
  hosts: string[];
  tags: string[];
  star: boolean;
  description: string;
  bar: BarShape | null;
  metric: string;
  trend: (number | null)[];
  last: number | null;
  line: string;
  level: number;
  values: Record<string, unknown>;
};

/** A page of the runs that match. With `since`, `rows` has only those of `ids` that may have changed. */
export type RunsPage = {
  total: number;
  cursor: string;
  whole: boolean;
  ids: string[];
  rows: Row[];
  columns: Column[];
};

/** What differs, part by part; `unread`: sentences on differences whose contents are missing. */
export type Sections = {
  config: Pair[];
  code: CodeChange[];
  packages: PackagePair[];
  hardware: Pair[];
  git: Pair[];
  command: Commands;
  environment: Pair[];
  data: Pair[];
  unread: string[];
};

/** A series, and its newest point. */
export type SeriesShape = {
  name: string;
  tags: Record<string, string>;
  count: number;
  min: number | null;
  max: number | null;
  last: number | null;
  last_step: number | null;
  last_t: number | null;
};

/** For how long a link is valid, and which page it shows. */
export type Share = {
  hours?: number;
  path?: string;
};

/** A link that can only read, and when it expires. */
export type Shared = {
  url: string;
  end_t: number;
};

/** The cursor of an earlier answer: how far each series was. */
export type Since = {
  t?: Record<string, number> | number;
  counts?: Record<string, number>;
  steps?: Record<string, number>;
};

/** Steps per second, by the series with the most points. */
export type Speed = {
  metric: string;
  a: number | "-inf" | "inf" | "nan" | null;
  b: number | "-inf" | "inf" | "nan" | null;
  ratio: number | "-inf" | "inf" | "nan" | null;
};

/** One try of a run. */
export type TryShape = {
  id: string;
  n: number;
  state: string;
  cause: string;
  start_t: number | null;
  end_t: number | null;
};

/** What a run used; `hidden`: how many processes are left out. */
export type Usage = {
  processes: UseShape[];
  hosts: UseShape[];
  marks: MarkShape[];
  hidden: number;
};

/** What both runs used of a resource. */
export type UsePair = {
  a_mean: number | "-inf" | "inf" | "nan" | null;
  b_mean: number | "-inf" | "inf" | "nan" | null;
  a_max: number | "-inf" | "inf" | "nan" | null;
  b_max: number | "-inf" | "inf" | "nan" | null;
};

/** What one process, or one host, used. */
export type UseShape = {
  process: string;
  pid: number;
  parent_pid: number;
  name: string;
  host: string;
  start_t: number | null;
  end_t: number | null;
  series: Record<string, CurveShape>;
};

/** Which series, over which x axis, which range of it, and for how many pixels. */
export type Wish = {
  of: Of[];
  x?: string;
  from?: number | null;
  to?: number | null;
  width?: number;
  since?: Since | null;
};

/** What can be read: what each address takes, in its path and its query, and what it answers. */
export type Gets = {
  "/api/about": {
    takes: Record<string, never>;
    gives: About;
  };
  "/api/runs": {
    takes: {
      where?: string | null;
      project?: string | null;
      sort?: string | null;
      group?: string | null;
      offset?: number | null;
      limit?: number | null;
      columns?: string | null;
      metric?: string | null;
      since?: string | null;
    };
    gives: RunsPage;
  };
  "/api/runs/{run}": {
    takes: {
      run: string;
    };
    gives: OneRun;
  };
  "/api/runs/{run}/logs": {
    takes: {
      run: string;
      after?: number | null;
      before?: number | null;
      limit?: number | null;
      grep?: string | null;
      level?: string | null;
      kind?: string | null;
      process?: string | null;
      from_t?: number | null;
      to_t?: number | null;
    };
    gives: Lines;
  };
  "/api/runs/{run}/density": {
    takes: {
      run: string;
      from_t?: number | null;
      to_t?: number | null;
      buckets?: number | null;
    };
    gives: Density;
  };
  "/api/runs/{run}/usage": {
    takes: {
      run: string;
      width?: number | null;
      since_t?: number | null;
    };
    gives: Usage;
  };
  "/api/runs/{run}/files": {
    takes: {
      run: string;
    };
    gives: Files;
  };
  "/api/runs/{run}/code": {
    takes: {
      run: string;
    };
    gives: Code;
  };
  "/api/compare": {
    takes: {
      runs?: string | null;
    };
    gives: Comparison;
  };
  "/api/explain": {
    takes: {
      a?: string | null;
      b?: string | null;
    };
    gives: Explanation;
  };
  "/api/blobs/{digest}": {
    takes: {
      digest: string;
      name?: string | null;
      download?: string | null;
    };
    gives: unknown;
  };
  "/api/live": {
    takes: {
      run?: string | null;
    };
    gives: News;
  };
  "/api/openapi.json": {
    takes: Record<string, never>;
    gives: unknown;
  };
};

/** What can be sent: the names in each address's path, its body, and what it answers. */
export type Posts = {
  "/api/series": {
    takes: Record<string, never>;
    body: Wish;
    gives: Head;
  };
  "/api/runs/{run}/edit": {
    takes: {
      run: string;
    };
    body: Edit;
    gives: Done;
  };
  "/api/runs/{run}/stop": {
    takes: {
      run: string;
    };
    body: Nothing;
    gives: Done;
  };
  "/api/runs/{run}/remove": {
    takes: {
      run: string;
    };
    body: Remove;
    gives: Done;
  };
  "/api/share": {
    takes: Record<string, never>;
    body: Share;
    gives: Shared;
  };
};
