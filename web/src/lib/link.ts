/** Links to views: the address holds all of their state. */
import { session } from "./session.svelte";

/** Return what others run before a link leads them here; "" if it leads here from other machines by itself. */
export function tunnelTo(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  if (!/^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) return "";
  const open = port || (protocol === "https:" ? "443" : "80");
  return `ssh -L ${open}:127.0.0.1:${open} HOST`;
}

/** Copy the link to the current view. */
export async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(window.location.href);
    session.say("Copied the link to this view.");
  } catch {
    session.say("The browser does not allow copying. Copy the link from the address bar.", true);
  }
}
