/** How a component follows changes while it is mounted. */
import { untrack } from "svelte";
import { throttled } from "./live";

/**
 * Call `act` when `concerned` is true for the newest change, at most once per `every_ms`. Returns a function that calls
 * `act` under the same limit. Use it while a component is initialised: it stops when the component is destroyed.
 */
export function onNews(concerned: () => unknown, act: () => void | Promise<void>, every_ms: number): () => void {
  const again = throttled(act, every_ms);
  $effect(() => {
    if (concerned()) untrack(() => again.call());
  });
  $effect(() => () => again.stop());
  return again.call;
}
