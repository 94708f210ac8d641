/** What the states of runs and processes have in common: how each is coloured, and so is why it came to that. */

export type Tone = "live" | "good" | "bad" | "warn" | "quiet";

const TONES = new Map<string, Tone>([
  ["running", "live"],
  ["leaving", "live"],
  ["done", "good"],
  ["failed", "bad"],
  ["lost", "warn"],
  ["cancelled", "warn"],
  ["ended", "warn"],
  ["queued", "quiet"],
]);

/** Return the tone of a state; quiet for one that we do not know. */
export const toneOf = (state: string): Tone => TONES.get(state) ?? "quiet";
