import { expect, it } from "vitest";
import { toneOf } from "../src/lib/states";

it("colours a failure, and nothing else, like one; what is not known is quiet", () => {
  const states = ["running", "leaving", "done", "failed", "lost", "cancelled", "ended", "queued"];
  expect(states.filter((state) => toneOf(state) === "bad")).toEqual(["failed"]);
  expect(states.filter((state) => toneOf(state) === "warn")).toEqual(["lost", "cancelled", "ended"]);
  expect(["", "of the next release", "constructor"].map(toneOf)).toEqual(["quiet", "quiet", "quiet"]);
});
