/** Format numbers, times and sizes for people. */

const DAY_S = 86400;

/** A number with about four significant digits; very large and very small ones in scientific notation. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return minus(String(value));
  if (size >= 1e6 || size < 1e-4)
    return minus(
      value
        .toExponential(Math.max(0, digits - 2))
        .replace(/\.?0+e/, "e")
        .replace("e+", "e"),
    );
  return minus(String(Number(value.toPrecision(digits))));
}

/** A count with thin spaces between thousands. */
export function count(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** Bytes in the largest unit in which the number is at least one. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (Math.abs(value) >= 999.5 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || Math.abs(value) >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** Labels of an axis of bytes; a label equal to the one before it is left empty. */
export function byteLabels(splits: (number | null)[]): string[] {
  let before = "";
  return splits.map((split) => {
    const label = split === null ? "" : bytes(split).replace(/\.0 /, " ");
    if (label === before) return "";
    before = label;
    return label;
  });
}

/** A duration in its two largest units: 2d 4h, 3h 07m, 4m 05s, 12.3s, 42ms. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  if (seconds < 0) seconds = 0;
  // The limits are below 1 and 60 so that no value is rounded up to 1000ms or 60s.
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 59.5) return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)}s`;
  const whole = Math.round(seconds);
  const two = (n: number): string => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < DAY_S) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / DAY_S)}d ${Math.floor((whole % DAY_S) / 3600)}h`;
}

/** How long ago `t` was, in one unit; a date if that is long ago. */
export function ago(t: number | null | undefined, now: number): string {
  if (t === null || t === undefined) return "";
  const s = Math.max(0, (now - t) / 1000);
  if (s < 5) return "now";
  if (s < 60) return `${Math.floor(s)}s ago`;
  if (s < 3600) return `${Math.floor(s / 60)}m ago`;
  if (s < DAY_S) return `${Math.floor(s / 3600)}h ago`;
  if (s < 60 * DAY_S) return `${Math.floor(s / DAY_S)}d ago`;
  return date(t);
}

const two = (n: number): string => String(n).padStart(2, "0");

/** 2026-11-16. */
export function date(t: number): string {
  const d = new Date(t);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

/** 14:03:22, or with `fine` 14:03:22.123. */
export function clock(t: number, fine = false): string {
  const d = new Date(t);
  const text = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return fine ? `${text}.${String(d.getMilliseconds()).padStart(3, "0")}` : text;
}

/** 2026-11-16 14:03:22. */
export function moment(t: number | null | undefined): string {
  return t === null || t === undefined ? "" : `${date(t)} ${clock(t)}`;
}

/** 14:03, with the date if that is not the day of `now`. */
export function minute(t: number, now: number): string {
  return date(t) === date(now) ? clock(t).slice(0, 5) : moment(t).slice(0, 16);
}

/** A fraction in percent, rounded down: 100% only if it is complete. */
export function percent(fraction: number | null | undefined): string {
  if (fraction === null || fraction === undefined) return "";
  if (fraction >= 1) return "100%";
  const digits = fraction < 0.1 ? 1 : 0;
  const step = 10 ** digits;
  return `${(Math.floor(fraction * 100 * step + 1e-9) / step).toFixed(digits)}%`;
}

/** A number as the user wrote it, so that it can be copied: integers in full, others with up to `digits` digits. */
function exact(of: number, digits: number): string {
  if (Number.isNaN(of)) return "nan";
  if (!Number.isFinite(of)) return of > 0 ? "inf" : "-inf";
  if (Number.isSafeInteger(of)) return String(of);
  const near = Number(of.toPrecision(digits));
  const size = Math.abs(near);
  return (size < 1e-4 || size >= 1e15 ? near.toExponential() : String(near)).replace("e+", "e");
}

/** Any config value or attribute on one line. Pass fewer `digits` for measured values. */
export function value(of: unknown, digits = 12): string {
  if (of === undefined) return "";
  if (of === null) return "null";
  if (typeof of === "number") return exact(of, digits);
  if (typeof of === "string") return of;
  if (typeof of === "boolean") return of ? "true" : "false";
  return JSON.stringify(of);
}

function minus(text: string): string {
  return text.replaceAll("-", "−");
}

/** A sentence of the server, which begins small and has no full stop, as it stands alone. */
export function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?!]$/.test(whole) ? whole : `${whole}.`;
}
