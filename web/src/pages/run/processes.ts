/** The processes of a run, each once. */
import type { ProcessShape } from "../../lib/api";

/** Merge the two entries of a process that the hub measured and that also sent records itself. */
export function merged(of: ProcessShape[]): ProcessShape[] {
  const out: ProcessShape[] = [];
  for (const one of of) {
    const at = out.findIndex(
      (other) => other.pid && other.pid === one.pid && other.host === one.host && other.speaks !== one.speaks,
    );
    if (at < 0) {
      out.push(one);
      continue;
    }
    const other = out[at];
    const spoke = one.speaks ? one : other;
    const start_t = Math.min(one.start_t ?? Infinity, other.start_t ?? Infinity);
    out[at] = {
      ...spoke,
      parent_pid: spoke.parent_pid || one.parent_pid || other.parent_pid,
      start_t: Number.isFinite(start_t) ? start_t : null,
      end_t: spoke.end_t ?? one.end_t ?? other.end_t,
    };
  }
  return out;
}
