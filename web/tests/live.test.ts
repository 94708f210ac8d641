import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { live } from "../src/lib/live";
import { session } from "../src/lib/session.svelte";

/** A browser's connection, which the test is the server of. */
class Source extends EventTarget {
  static readonly CLOSED = 2;
  static all: Source[] = [];
  onopen = (): void => undefined;
  onerror = (): void => undefined;
  readyState = 0;

  constructor(readonly url: string) {
    super();
    Source.all.push(this);
  }

  say(type: string, data: object = {}): void {
    this.dispatchEvent(new MessageEvent(type, { data: JSON.stringify(data) }));
  }

  close(): void {
    this.readyState = Source.CLOSED;
  }
}

const missed = vi.fn();
let stop: () => void;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("document", Object.assign(new EventTarget(), { hidden: false }));
  vi.stubGlobal("location", new URL("http://localhost/"));
  Source.all = [];
  missed.mockClear();
  stop = live("r1", () => undefined, missed);
  Source.all[0].onopen();
});

afterEach(() => {
  stop();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("connects again when a connection says nothing, as a tunnel that is dead does, and loads what it missed", () => {
  for (let second = 0; second < 120; second += 15) {
    vi.advanceTimersByTime(15_000);
    Source.all[0].say("still-here");
  }
  expect(Source.all.length).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect([Source.all.length, Source.all[0].readyState, session.link]).toEqual([2, Source.CLOSED, "waiting"]);
  Source.all[1].onopen();
  expect([session.link, missed.mock.calls.length]).toEqual(["open", 1]);
});

it("leaves alone what has ended", () => {
  stop();
  vi.advanceTimersByTime(300_000);
  expect(Source.all.length).toBe(1);
});
