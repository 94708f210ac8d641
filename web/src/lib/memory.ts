/** Settings in the browser's local storage. If the browser forbids storage, the page works without it. */

export function recall<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`vedette.${name}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(`vedette.${name}`, JSON.stringify(value));
  } catch {
    // the browser forbids storage
  }
}
