/** Copy the link to the current view: the address holds all of its state. */
import { session } from "./session.svelte";

export async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(window.location.href);
    session.say("Copied the link to this view.");
  } catch {
    session.say("The browser does not allow copying. Copy the link from the address bar.", true);
  }
}
