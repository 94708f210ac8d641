/** The usage of a run's processes and hosts: loads all of it once, then only what is new. */
import { get, type CurveShape, type Usage, type UseShape } from "../../lib/api";
import { sum, type Line } from "../../lib/chart";

const OTHERS = "#8b9098"; // a grey that is no colour of the palette

const LATE_MS = 15_000; // measurements of one moment may arrive at different times

export class Used {
  got: Usage | null = $state.raw(null);
  problem = $state("");

  async load(run: string, width: number): Promise<void> {
    try {
      const before = this.got;
      const since = before ? sinceOf(before) : undefined;
      const news = await get("/api/runs/{run}/usage", { run, width, since_t: since });
      if (!before || since === undefined) this.got = news;
      else if (fits(before, news, since, width)) this.got = join(before, news);
      else this.got = await get("/api/runs/{run}/usage", { run, width });
      this.problem = "";
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }
}

const keyOf = (one: UseShape): string => one.process + one.host;
const lastOf = (one: UseShape): number =>
  Math.max(-Infinity, ...Object.values(one.series).map(({ t }) => t.at(-1) ?? -Infinity));

/** Return the time from which there may be new points: the last point of the host or process farthest behind. */
function sinceOf(got: Usage): number | undefined {
  const all = [...got.processes, ...got.hosts];
  const times = (of: UseShape[]): number[] => of.map(lastOf).filter(Number.isFinite);
  const living = times(all.filter((one) => one.end_t === null));
  if (living.length) return Math.min(...living) - LATE_MS;
  const ended = times(all);
  return ended.length ? Math.max(...ended) - LATE_MS : undefined;
}

/** Whether new points can be appended: every process is known or new, and no series has grown too long. */
function fits(before: Usage, news: Usage, since: number, width: number): boolean {
  const known = new Set([...before.processes, ...before.hosts].map(keyOf));
  const strange = [...news.processes, ...news.hosts].some(
    (one) => !known.has(keyOf(one)) && (one.start_t ?? 0) < since,
  );
  const crowded = [...before.processes, ...before.hosts].some((one) =>
    Object.values(one.series).some(({ t }) => t.length > width * 8),
  );
  return !strange && !crowded;
}

function join(before: Usage, news: Usage): Usage {
  const part = (old: UseShape[], fresh: UseShape[]): UseShape[] => {
    const known = new Map(old.map((one) => [keyOf(one), one]));
    return fresh.map((one) => {
      const was = known.get(keyOf(one));
      if (!was) return one;
      const series = { ...was.series };
      for (const [name, { t, value }] of Object.entries(one.series)) {
        const had = series[name] ?? { t: [], value: [] };
        const last = had.t.at(-1) ?? -Infinity;
        const at = t.findIndex((moment) => moment > last);
        if (at >= 0) series[name] = { t: [...had.t, ...t.slice(at)], value: [...had.value, ...value.slice(at)] };
      }
      return { ...one, series };
    });
  };
  return { ...news, processes: part(before.processes, news.processes), hosts: part(before.hosts, news.hosts) };
}

/** Integrate a measure over time. */
function used({ t, value }: CurveShape): number {
  let sum = 0;
  for (let i = 0; i < t.length; i++) sum += (value[i] ?? 0) * (i + 1 < t.length ? t[i + 1] - t[i] : 1);
  return sum;
}

/**
 * The lines of one measure, one per process or host that has it, the busiest first. A process has one colour in all
 * charts. If there are more than `most`, the rest is summed into one line, so that a stack still shows the total.
 */
export function linesOf(of: UseShape[], measure: string, color: (at: number) => string, most = Infinity): Line[] {
  const having = of
    .map((one, place) => ({ one, place, column: one.series[measure] }))
    .filter(({ column }) => column?.t.length);
  const sorted = having
    .map((each) => ({ ...each, used: used(each.column) }))
    .sort((a, b) => b.used - a.used || a.place - b.place);
  const lines = sorted.map(({ one, place, column }) => ({
    label: [one.name || "process", one.pid || ""].join(" ").trim(),
    color: color(place),
    x: column.t,
    y: column.value,
  }));
  if (lines.length <= most) return lines;
  const others = lines.slice(most - 1);
  return [...lines.slice(0, most - 1), { label: `${others.length} others`, color: OTHERS, ...sum(others) }];
}

/** The lines of all GPUs; labelled with the host if there are several hosts. */
export function gpuLines(hosts: UseShape[], color: (at: number) => string): Line[] {
  const all = hosts.flatMap((one) =>
    Object.entries(one.series)
      .filter(([name, { t }]) => name.split(" ")[0] === "gpu_percent" && t.length)
      .map(([name, column]) => ({
        host: hosts.length > 1 ? `${one.name || one.host} ` : "",
        of: spoken(name).of,
        column,
      })),
  );
  return all.map(({ host, of, column }, i) => ({
    label: `${host}GPU ${of}`.trim(),
    color: color(i),
    x: column.t,
    y: column.value,
    width: 1.25,
  }));
}

const UNITS: [RegExp, string][] = [
  [/_bytes_per_s$/, "bytes/s"],
  [/_per_s$/, "per second"],
  [/_percent$/, "%"],
  [/_bytes$/, "bytes"],
  [/_w$/, "W"],
  [/_c$/, "°C"],
  [/_j$/, "J"],
  [/_s$/, "s"],
];

/** Split the name of a measure into words, tags and unit: `disk_busy_percent disk=vda` is Disk busy, vda, %. */
export function spoken(measure: string): { words: string; of: string; unit: string } {
  const [name, ...tags] = measure.split(" ");
  const [suffix, unit] = UNITS.find(([ending]) => ending.test(name)) ?? [null, ""];
  const words = (suffix ? name.replace(suffix, "") : name)
    .replaceAll("_", " ")
    .replace(/\b(cpu|gpu|io)\b/g, (word) => word.toUpperCase());
  return {
    words: words.charAt(0).toUpperCase() + words.slice(1),
    of: tags.map((tag) => tag.replace(/^[^=]*=/, "")).join(" "),
    unit,
  };
}

/** Whether a measure was always 0. */
export function idle(of: UseShape[], measure: string): boolean {
  return of.every((one) => one.series[measure]?.value.every((value) => !value) ?? true);
}

/** All measures that any process or host has, the common ones first. */
export function measures(of: UseShape[]): string[] {
  const all = new Set(of.flatMap((one) => Object.keys(one.series).filter((name) => one.series[name].t.length)));
  const first = ["cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes"];
  return [...first.filter((name) => all.has(name)), ...[...all].filter((name) => !first.includes(name)).sort()];
}
