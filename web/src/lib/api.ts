/** The server's API, typed: requests, binary series, and what changes while one looks. */

export type Bar = {
  msg: string;
  done: number;
  total: number | null;
  fraction: number | null;
  eta_s: number | null;
  state?: string;
  start_t?: number | null;
  seen_t?: number | null;
  end_t?: number | null;
  id?: string;
  name?: string;
};

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
  hosts: string[];
  tags: string[];
  star: boolean;
  description: string;
  bar: Bar | null;
  metric: string;
  trend: (number | null)[];
  last: number | null;
  silent_s: number | null;
  line: string;
  level: number;
  values: Record<string, unknown>;
};

export type Column = { name: string; count: number };
export type Runs = { total: number; cursor: string; whole: boolean; ids: string[]; rows: Row[]; columns: Column[] };
export type About = {
  version: string;
  read_only: boolean;
  hub: boolean;
  home: string;
  project: string;
  projects: string[];
  now_t: number;
};
export type Process = {
  id: string;
  name: string;
  pid: number | null;
  parent_pid: number | null;
  host: string;
  state: string;
  cause: string;
  start_t: number | null;
  end_t: number | null;
  argv: string[];
  speaks: boolean;
};
export type SeriesInfo = {
  name: string;
  tags: Record<string, string>;
  count: number;
  min: number | null;
  max: number | null;
  last: number | null;
  last_step: number | null;
  last_t: number | null;
};
export type FileInfo = { name: string; digest: string; size: number; media: string; t: number };
export type Mark = { t: number; text: string };
export type Try = { id: string; n: number; state: string; cause: string; start_t: number | null; end_t: number | null };

export type Run = Row & {
  config: Record<string, unknown>;
  summary: Record<string, unknown>;
  attrs: Record<string, unknown>;
  notes: string;
  argv: string[] | null;
  cwd: string | null;
  git: Record<string, unknown> | null;
  host_info: Record<string, unknown> | null;
  tries: Try[];
  processes: Process[];
  bars: Bar[];
  series: SeriesInfo[];
  files: FileInfo[];
  marks: Mark[];
  questions: { id: string; prompt: string; password: boolean; t: number }[];
  refused: Record<string, number>;
};

export type LogRow = {
  id: number;
  t: number;
  kind: string;
  level: number;
  text: string;
  process: string;
  host: string;
  pid: number;
  cut?: boolean;
};
export type Logs = { rows: LogRow[]; first: boolean; last: boolean };
export type Density = { from_t: number; to_t: number; counts: Record<string, number[]> };
export type UsageColumn = { t: number[]; value: (number | null)[] };
export type ProcessUsage = {
  process: string;
  pid: number | null;
  parent_pid?: number;
  name: string;
  host: string;
  start_t: number | null;
  end_t: number | null;
  series: Record<string, UsageColumn>;
};
export type Usage = { processes: ProcessUsage[]; hosts: ProcessUsage[]; marks: Mark[]; hidden?: number };
export type CodeFile = { path: string; digest: string; size: number; mode?: number | string };
export type Code = { manifest: CodeFile[]; git: Record<string, unknown> | null; diff: string | null };

/** What the server says when it refuses: one sentence. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

type Params = Record<string, string | number | boolean | null | undefined>;

function address(path: string, params?: Params): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params ?? {}))
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function ask(path: string, options: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is `vedette ui` still running?");
  }
  if (response.ok) return response;
  let sentence = `The server answered ${response.status}.`;
  try {
    const body = (await response.json()) as { error?: string };
    if (body.error) sentence = body.error;
  } catch {
    if (response.status === 401) sentence = "This page is not signed in: open the link that `vedette ui` printed.";
  }
  throw new ApiError(response.status, sentence);
}

/** GET as JSON; throws ApiError with a sentence. */
export async function get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
  return (await (await ask(address(path, params), { signal })).json()) as T;
}

/** POST JSON, and get JSON back. */
export async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await ask(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await response.json()) as T;
}

/** A file's bytes as text, at most so many characters. */
export async function text(digest: string, name: string, most = 2_000_000): Promise<string> {
  const response = await ask(address(blobUrl(digest), { name }), {});
  return (await response.text()).slice(0, most);
}

export const blobUrl = (digest: string): string => `/api/blobs/${encodeURIComponent(digest)}`;
export const runUrl = (id: string): string => `/api/runs/${encodeURIComponent(id)}`;

export type SeriesAsked = { run: string; name: string; tags?: Record<string, string> };
export type SeriesQuery = { of: SeriesAsked[]; x: string; from?: number; to?: number; width: number; since?: unknown };
export type Series = {
  run: string;
  name: string;
  tags: Record<string, string>;
  x: Float64Array;
  y: Float64Array;
  count: number;
  exact: boolean;
  first_x: number | null;
  last_x: number | null;
  nan: number[];
  since: boolean; // these come behind what was sent before; else they are all
};
export type SeriesAnswer = { series: Series[]; cursor: unknown };

type Head = { series: (Omit<Series, "x" | "y"> & { x: [number, number]; y: [number, number] })[]; cursor: unknown };

/** Points of many series in one request, as columns. */
export async function series(query: SeriesQuery, signal?: AbortSignal): Promise<SeriesAnswer> {
  if (query.of.length === 0) return { series: [], cursor: null };
  const response = await ask("/api/series", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(query),
    signal,
  });
  return decode(await response.arrayBuffer());
}

/** u32 length, JSON head, padding to 8, float64 columns: all little endian. Offsets count float64s from the first column. */
export function decode(buffer: ArrayBuffer): SeriesAnswer {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Head;
  const base = Math.ceil((4 + length) / 8) * 8;
  const column = ([offset, count]: [number, number]): Float64Array =>
    new Float64Array(buffer, base + offset * 8, count);
  return {
    cursor: head.cursor,
    series: head.series.map((one) => ({ ...one, nan: one.nan ?? [], x: column(one.x), y: column(one.y) })),
  };
}

export type Change = { runs: string[]; spans: boolean; events: boolean; points: string[]; missed?: boolean };
export type Link = "open" | "waiting";

/**
 * Listen to what changes, for one run or ("") for all; returns how to stop.
 * `missed` is called whenever something may have gone by unheard: then read anew. A page that nobody sees does not
 * listen: a browser has few connections to one server, for all its tabs together.
 */
export function live(
  run: string,
  heard: (change: Change) => void,
  missed: () => void,
  link?: (state: Link) => void,
): () => void {
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wait_ms = 500;
  let broken = document.hidden;
  const open = (): void => {
    source = new EventSource(address("/api/live", { run }));
    source.onopen = () => {
      wait_ms = 500;
      link?.("open");
      if (broken) missed();
      broken = false;
    };
    source.addEventListener("change", (event) => {
      const change = JSON.parse((event as MessageEvent<string>).data) as Change;
      if (change.missed) missed();
      else heard(change);
    });
    source.onerror = () => {
      link?.("waiting");
      broken = true;
      if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      timer = setTimeout(open, wait_ms);
      wait_ms = Math.min(wait_ms * 2, 15_000);
    };
  };
  const close = (): void => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const turned = (): void => {
    broken = true;
    close();
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", turned);
  if (!document.hidden) open();
  return () => {
    document.removeEventListener("visibilitychange", turned);
    close();
  };
}

/** Call `act` at most once in `every_ms`, and once more after the last call. */
export function throttled(act: () => void | Promise<void>, every_ms: number): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let busy = false;
  let again = false;
  const turn = async (): Promise<void> => {
    busy = true;
    again = false;
    try {
      await act();
    } finally {
      timer = setTimeout(() => {
        busy = false;
        if (again) void turn();
      }, every_ms);
    }
  };
  return {
    call: () => {
      if (busy) again = true;
      else void turn();
    },
    stop: () => {
      clearTimeout(timer);
      busy = true;
    },
  };
}
