/** The server's API: requests, typed by its OpenAPI description, and the binary encoding of series. */
import type { Drawn, Gets, Head, Posts, Since, Wish } from "./api.gen";
import type { Buckets } from "./buckets";

export type * from "./api.gen";

/** A failed request; the message is a sentence for the user. Status 0: no response. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

/** Build an address of the API: fill in path parameters, put the rest in the query, and skip null and "". */
export function address<P extends keyof (Gets & Posts)>(path: P, takes: (Gets & Posts)[P]["takes"]): string {
  const query = new URLSearchParams();
  let filled: string = path;
  for (const [name, value] of Object.entries(takes as Record<string, string | number | null | undefined>))
    if (path.includes(`{${name}}`)) filled = filled.replace(`{${name}}`, encodeURIComponent(String(value)));
    else if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  const text = query.toString();
  return text ? `${filled}?${text}` : filled;
}

let refused: (sentence: string) => void = () => undefined;

/** Set what is called with a sentence when the server no longer knows this page's token. */
export function onRefused(act: (sentence: string) => void): void {
  refused = act;
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
    if (response.status === 401) sentence = "this page is not signed in: open the link that `vedette ui` printed";
  }
  if (response.status === 401) refused(sentence);
  throw new ApiError(response.status, sentence);
}

/** GET JSON; throws ApiError. */
export async function get<P extends keyof Gets>(
  path: P,
  takes: Gets[P]["takes"],
  signal?: AbortSignal,
): Promise<Gets[P]["gives"]> {
  return (await (await ask(address(path, takes), { signal })).json()) as Gets[P]["gives"];
}

function send(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** POST JSON, and return the JSON response; throws ApiError. */
export async function post<P extends Exclude<keyof Posts, "/api/series">>(
  path: P,
  takes: Posts[P]["takes"],
  body: Posts[P]["body"],
): Promise<Posts[P]["gives"]> {
  return (await (await send(address(path, takes), body)).json()) as Posts[P]["gives"];
}

/** Return a value as a number, also "nan", "inf" and "-inf", which JSON cannot hold; null for anything else. */
export function numeric(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (value === "nan") return NaN;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return null;
}

/** Return a file as text, at most `most` characters. */
export async function text(digest: string, name: string, most = 2_000_000): Promise<string> {
  const response = await ask(address("/api/blobs/{digest}", { digest, name }), {});
  return (await response.text()).slice(0, most);
}

/** A series whose columns are decoded, instead of offsets into the response. */
export type Series = Omit<Drawn, "x" | "y" | "buckets"> & {
  x: Float64Array;
  y: Float64Array;
  buckets: Buckets | null;
};
export type SeriesAnswer = { series: Series[]; cursor: Since };

/** Request the points of many series at once. */
export async function series(wish: Wish, signal?: AbortSignal): Promise<SeriesAnswer> {
  if (wish.of.length === 0) return { series: [], cursor: {} };
  return decode(await (await send("/api/series", wish, signal)).arrayBuffer());
}

/**
 * Decode a response of /api/series: u32 length of the header, JSON header, padding to 8 bytes, float64 columns; all
 * little endian. Offsets count float64s from the first column.
 */
export function decode(buffer: ArrayBuffer): SeriesAnswer {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Head;
  const base = Math.ceil((4 + length) / 8) * 8;
  const column = ([at, count]: [number, number]): Float64Array => new Float64Array(buffer, base + at * 8, count);
  const decoded = ({ x, y, buckets, ...rest }: Drawn): Series => ({
    ...rest,
    x: column(x),
    y: column(y),
    buckets: buckets && {
      width: buckets.width,
      origin: buckets.origin,
      index: column(buckets.index),
      x: column(buckets.x),
      count: column(buckets.count),
      mean: column(buckets.mean),
      m2: column(buckets.m2),
      smooth: column(buckets.smooth),
    },
  });
  return { cursor: head.cursor, series: head.series.map(decoded) };
}
