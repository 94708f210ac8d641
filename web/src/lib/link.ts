/** Copy the link to the current view: the address holds all of its state. */
import { session } from "./session.svelte";

export async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(window.location.href);
    session.say("The link to this view is copied.");
  } catch {
    session.say("The browser lets nothing be copied: the address bar has the link.", true);
  }
}
