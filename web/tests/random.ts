/** Numbers that are the same in every run of the tests. */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** So many of them, from low to high. */
export function numbers(count: number, seed: number, low = -1, high = 1): number[] {
  const next = random(seed);
  return Array.from({ length: count }, () => low + (high - low) * next());
}
