/** The address bar is the state of the view: every view is a link that can be shared. */

export type Route = {
  page: "runs" | "run" | "compare" | "explain" | "nowhere";
  id: string;
  tab: string;
  path: string;
  query: URLSearchParams;
};

function read(): Route {
  const { pathname, search } = window.location;
  const query = new URLSearchParams(search);
  const parts = pathname.split("/").filter(Boolean).map(plain);
  const known = (page: Route["page"], id = "", tab = ""): Route => ({ page, id, tab, path: pathname, query });
  if (parts.length === 0) return known("runs");
  if (parts[0] === "run" && parts.length >= 2 && parts.length <= 3) return known("run", parts[1], parts[2] ?? "");
  if (parts.length === 1 && (parts[0] === "compare" || parts[0] === "explain")) return known(parts[0]);
  return known("nowhere");
}

function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class Router {
  at: Route = $state.raw(read());

  constructor() {
    window.addEventListener("popstate", () => (this.at = read()));
  }

  /** Go to an address of this page. */
  go(url: string, replace = false): void {
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.at = read();
    if (!replace) window.scrollTo(0, 0);
  }

  /** Change some of the query; null and "" take a key away. */
  set(changes: Record<string, string | null | undefined>, replace = true): void {
    const query = new URLSearchParams(this.at.query);
    for (const [key, value] of Object.entries(changes))
      if (value === null || value === undefined || value === "") query.delete(key);
      else query.set(key, value);
    const text = query.toString();
    this.go(text ? `${this.at.path}?${text}` : this.at.path, replace);
  }
}

export const router = new Router();

export const toRun = (id: string, tab = ""): string => `/run/${encodeURIComponent(id)}${tab ? `/${tab}` : ""}`;
export const toCompare = (ids: string[]): string => `/compare?runs=${ids.map(encodeURIComponent).join(",")}`;
export const toExplain = (a: string, b: string): string =>
  `/explain?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`;

/** Let plain clicks on links within the page be a change of view, not a reload. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin) return;
  if (link.pathname.startsWith("/api/")) return;
  event.preventDefault();
  router.go(link.pathname + link.search);
}
