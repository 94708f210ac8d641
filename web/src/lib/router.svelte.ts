/** The address bar holds the state of the view; the router changes it, and follows back and forward. */
import { readRoute, toQuery, type Route } from "./routes";

class Router {
  at: Route = $state.raw(readRoute(window.location));

  constructor() {
    window.addEventListener("popstate", () => (this.at = readRoute(window.location)));
  }

  /** Go to an address of this page. */
  go(url: string, replace = false): void {
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.at = readRoute(window.location);
    if (!replace) window.scrollTo(0, 0);
  }

  /** Change some keys of the query; null and "" remove a key. */
  set(changes: Record<string, string | null>, replace = true): void {
    const query = new URLSearchParams(this.at.query);
    for (const [key, value] of Object.entries(changes))
      if (value === null || value === "") query.delete(key);
      else query.set(key, value);
    this.go(toQuery(this.at.path, query), replace);
  }
}

export const router = new Router();

/** Handle plain clicks on internal links without reloading the page. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin) return;
  if (link.pathname.startsWith("/api/")) return;
  event.preventDefault();
  router.go(link.pathname + link.search);
}
