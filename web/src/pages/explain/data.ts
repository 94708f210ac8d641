/** Why two runs differ, as the server tells it. */
import type { Row } from "../../lib/api";

export type Cause = { kind: string; key: string; a: unknown; b: unknown; weight: number; text: string };
export type Pair = { key?: string; name?: string; a: unknown; b: unknown };
export type CodeChange = {
  path: string;
  change: "added" | "removed" | "changed";
  diff: string;
  sort?: string;
  reached?: boolean;
};
export type MetricPair = {
  name: string;
  tags: Record<string, string>;
  first_step: number | null;
  first_t: number | null;
  equal_before: number;
  common: number;
  a_last: number | null;
  b_last: number | null;
  delta: number | null;
  a_best: number | null;
  b_best: number | null;
  a_steps: number | null;
  b_steps: number | null;
};
export type UsePair = { a_mean: number | null; b_mean: number | null; a_max: number | null; b_max: number | null };
export type End = { state: string; cause: string; duration_s: number | null };
export type Explanation = {
  a: Row;
  b: Row;
  causes: Cause[];
  sections: {
    config: Pair[];
    code: CodeChange[];
    packages: Pair[];
    hardware: Pair[];
    git?: Pair[];
    command: { a: string[]; b: string[] };
    environment: Pair[];
    data: Pair[];
    unread: string[];
  };
  outcome: {
    metrics: MetricPair[];
    only_a: string[];
    only_b: string[];
    left_out: number;
    speed: { metric: string; a: number | null; b: number | null; ratio: number | null };
    usage: Record<string, UsePair>;
    end: { a: End; b: End };
  };
};

/** A number, also where JSON had to spell it. */
export function number(value: unknown): number | null {
  if (typeof value === "number") return value;
  return value === "nan" ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : null;
}
