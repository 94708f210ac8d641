/** A view is its address: to share it is to copy that. */
import { session } from "./session.svelte";

export async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(window.location.href);
    session.say("The link to this view is copied.");
  } catch {
    session.say("The browser lets nothing be copied: the address bar has the link.", true);
  }
}
