/** Keyboard shortcuts, and the list of them that `?` shows. */

import { untrack } from "svelte";

export type Key = { key: string; does: string; act: (event: KeyboardEvent) => void; ctrl?: boolean; hidden?: boolean };

const LEADING = ["/", "?"];

class Keys {
  groups: { title: string; keys: Key[] }[] = $state.raw([]);
  ready = false; // the page shows what it is about; before that, only the keys that lead to a box act

  /** Bind keys; returns a function that unbinds them. The newest binding of a key wins. */
  bind(title: string, keys: Key[]): () => void {
    const group = { title, keys };
    untrack(() => (this.groups = [...this.groups, group]));
    return () => untrack(() => (this.groups = this.groups.filter((one) => one !== group)));
  }

  press(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return; // a dialog handles its own keys
    if (typing(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if ((event.key === "Enter" || event.key === " ") && pressed(event.target)) return;
    const ctrl = event.ctrlKey || event.metaKey;
    for (const group of [...this.groups].reverse())
      for (const one of group.keys)
        if (one.key === event.key && Boolean(one.ctrl) === ctrl) {
          event.preventDefault();
          if (this.ready || LEADING.includes(one.key)) one.act(event);
          return;
        }
  }
}

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.tagName) return false;
  if (element.tagName === "INPUT")
    return !["checkbox", "radio", "range", "button"].includes((element as HTMLInputElement).type);
  return element.tagName === "TEXTAREA" || element.tagName === "SELECT" || element.isContentEditable;
}

/** Whether the browser itself handles Enter and Space on this element. */
function pressed(target: EventTarget | null): boolean {
  return (
    target instanceof Element && target.closest("a[href], button, input, summary, [role=tab], [role=button]") !== null
  );
}

export const keys = new Keys();
