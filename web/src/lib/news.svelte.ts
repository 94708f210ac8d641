/** How a part of the page keeps up with what changes, for as long as it is shown. */
import { untrack } from "svelte";
import { throttled } from "./live";

/**
 * Call `act` when `concerned` holds of the newest change, at most once in `every_ms`; returns how to call it besides.
 * To be used where a part is set up: it stops with that part.
 */
export function onNews(concerned: () => unknown, act: () => void | Promise<void>, every_ms: number): () => void {
  const again = throttled(act, every_ms);
  $effect(() => {
    if (concerned()) untrack(() => again.call());
  });
  $effect(() => () => again.stop());
  return again.call;
}
