/** Parse and build the page's addresses: every view is a link that can be shared. */

export type Route = {
  page: "runs" | "run" | "compare" | "explain" | "nowhere";
  id: string;
  tab: string;
  path: string;
  query: URLSearchParams;
};

/** Parse an address. */
export function readRoute({ pathname, search }: { pathname: string; search: string }): Route {
  const query = new URLSearchParams(search);
  const parts = pathname.split("/").filter(Boolean).map(decoded);
  const known = (page: Route["page"], id = "", tab = ""): Route => ({ page, id, tab, path: pathname, query });
  if (parts.length === 0) return known("runs");
  if (parts[0] === "run" && parts.length >= 2 && parts.length <= 3) return known("run", parts[1], parts[2] ?? "");
  if (parts.length === 1 && (parts[0] === "compare" || parts[0] === "explain")) return known(parts[0]);
  return known("nowhere");
}

/** Add a query to a path; commas, slashes and tildes are not escaped, so that a link is easier to read. */
export function toQuery(path: string, query: URLSearchParams): string {
  const text = query.toString().replace(/%2C/g, ",").replace(/%2F/g, "/").replace(/%7E/g, "~");
  return text ? `${path}?${text}` : path;
}

export const toRun = (id: string, tab = ""): string => `/run/${encodeURIComponent(id)}${tab ? `/${tab}` : ""}`;
export const toCompare = (ids: string[]): string => toQuery("/compare", new URLSearchParams({ runs: joined(ids) }));
export const toExplain = (a: string, b: string): string => toQuery("/explain", new URLSearchParams({ a, b }));

/** Join names with commas; a comma or percent sign inside a name is escaped. */
export const joined = (names: string[]): string =>
  names.map((name) => name.replace(/[%,]/g, encodeURIComponent)).join(",");

/** Split such a text into names. */
export const parted = (text: string): string[] => text.split(",").filter(Boolean).map(decoded);

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
