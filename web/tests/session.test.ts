import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Session } from "../src/lib/session.svelte";

const START = Date.parse("2026-11-16T20:42:10+01:00");

beforeEach(() => void vi.useFakeTimers({ now: START }));
afterEach(() => void vi.useRealTimers());

it("has a clock that stands while no news come, whatever the reason, and goes on with them", () => {
  const session = new Session();
  vi.advanceTimersByTime(5000);
  expect(session.now).toBe(START + 5000);
  for (const stand of [
    () => (session.over = "this link has expired"),
    () => (session.link = "waiting"),
    () => (session.link = "away"),
  ]) {
    const then = session.now;
    stand();
    vi.advanceTimersByTime(60_000);
    expect(session.now).toBe(then);
    session.over = "";
    session.link = "open";
    vi.advanceTimersByTime(1000);
    expect(session.now).toBe(Date.now());
    expect(session.isPast).toBe(false);
  }
});

it("is of the past as soon as it is over, and when the server has been gone for long, not when nobody looks", () => {
  const session = new Session();
  session.link = "away";
  vi.advanceTimersByTime(60_000);
  expect(session.isPast).toBe(false);
  session.link = "open";
  vi.advanceTimersByTime(1000);
  session.link = "waiting";
  vi.advanceTimersByTime(5000);
  expect([session.isPast, session.lost]).toEqual([false, false]);
  vi.advanceTimersByTime(10_000);
  expect([session.isPast, session.lost]).toEqual([true, true]);
  session.link = "open";
  session.over = "this link has expired";
  expect([session.isPast, session.lost]).toEqual([true, false]);
});

it("says as of when it is, with the date from the next day on", () => {
  const session = new Session();
  session.over = "this link has expired";
  vi.advanceTimersByTime(60_000);
  expect(session.asOf).toBe("20:42");
  vi.advanceTimersByTime(4 * 3_600_000);
  expect(session.asOf).toBe("2026-11-16 20:42");
});
