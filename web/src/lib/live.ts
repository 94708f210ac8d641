/** The server's change events, and a limit on how often they make the page request data again. */
import { address, get, type News } from "./api";
import { session } from "./session.svelte";

/** Everything may have changed. */
export const ALL_NEWS: News = { runs: [], spans: true, events: true, points: [], missed: true, hub: true, trouble: "" };

/** How long a connection may be silent: the server says something every 15 s, and a tunnel may die without a word. */
const MOST_SILENT_MS = 40_000;

const read = (event: Event): News => JSON.parse((event as MessageEvent<string>).data) as News;

/**
 * Listen to changes of one run, or of all runs (""); returns a function that stops it.
 * Calls `missed` whenever changes may have been lost; the caller then loads its data again. A hidden page does not
 * listen, because a browser allows only a few connections to one server for all its tabs together. Whether news come
 * stands in `session.link`, and only here is it known: the clock of the page stands while they do not.
 */
export function live(run: string, heard: (news: News) => void, missed: () => void): () => void {
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let wait_ms = 500;
  let broken = document.hidden;
  const awaitMore = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      session.link = "waiting";
      broken = true;
      close();
      open();
    }, MOST_SILENT_MS);
  };
  const open = (): void => {
    source = new EventSource(address("/api/live", { run }));
    awaitMore();
    source.onopen = () => {
      awaitMore();
      wait_ms = 500;
      session.over = "";
      session.link = "open";
      if (broken) missed();
      broken = false;
    };
    source.addEventListener("still-here", awaitMore);
    source.addEventListener("hello", (event) => {
      awaitMore();
      session.trouble = read(event).trouble;
    });
    source.addEventListener("change", (event) => {
      awaitMore();
      const change = read(event);
      session.trouble = change.trouble;
      if (change.missed) missed();
      else heard(change);
    });
    source.onerror = () => {
      session.link = "waiting";
      broken = true;
      if (source?.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
      clearTimeout(silence);
      void retry();
    };
  };
  const retry = async (): Promise<void> => {
    const refused = source; // an event source does not tell why, a request does
    await get("/api/about", {}).catch(() => undefined);
    if (source !== refused || session.over) return;
    timer = setTimeout(open, wait_ms);
    wait_ms = Math.min(wait_ms * 2, 15_000);
  };
  const close = (): void => {
    clearTimeout(timer);
    clearTimeout(silence);
    source?.close();
    source = null;
  };
  const turned = (): void => {
    broken = true;
    close();
    begin();
  };
  const begin = (): void => {
    if (document.hidden) session.link = "away";
    else open(); // until that has worked the link stays as it was
  };
  document.addEventListener("visibilitychange", turned);
  begin();
  return () => {
    document.removeEventListener("visibilitychange", turned);
    close();
    session.link = "open"; // who does not listen misses nothing
  };
}

/** Call `act` at most once per `every_ms`. A call in between runs `act` once more at the end of the interval. */
export function throttled(act: () => void | Promise<void>, every_ms: number): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let busy = false;
  let again = false;
  let stopped = false; // may be set while `act` is still running
  const turn = async (): Promise<void> => {
    busy = true;
    again = false;
    try {
      await act();
    } finally {
      if (!stopped)
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
      busy = stopped = true;
    },
  };
}
