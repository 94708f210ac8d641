/** Log lines, in the order in which they were printed and logged. */
import type { LineShape } from "./api";

/** Sort lines by time; the server has them as they were stored, so those of several processes are in blocks. */
export function byTime(lines: LineShape[]): LineShape[] {
  const sorted = lines.every((line, i) => i === 0 || lines[i - 1].t <= line.t);
  return sorted ? lines : [...lines].sort((a, b) => a.t - b.t || a.id - b.id);
}
