/** What a run's processes used: fetched once, then only what is new. */
import { get, runUrl, type ProcessUsage, type Usage } from "../../lib/api";
import type { Line } from "../../lib/chart";

export class Used {
  got: Usage | null = $state.raw(null);
  problem = $state("");
  #last_t = 0;

  async load(run: string, width: number): Promise<void> {
    try {
      const since = this.got ? this.#last_t : undefined;
      const news = await get<Usage>(`${runUrl(run)}/usage`, { width, since_t: since });
      this.got = since === undefined || !this.got ? news : join(this.got, news);
      for (const one of news.processes) for (const { t } of Object.values(one.series)) this.#last_t = Math.max(this.#last_t, t[t.length - 1] ?? 0);
      this.problem = "";
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }
}

function join(before: Usage, news: Usage): Usage {
  const part = (old: ProcessUsage[], fresh: ProcessUsage[]): ProcessUsage[] => {
    const known = new Map(old.map((one) => [one.process + one.host, one]));
    return fresh.map((one) => {
      const was = known.get(one.process + one.host);
      if (!was) return one;
      const series = { ...was.series };
      for (const [name, { t, value }] of Object.entries(one.series)) {
        const had = series[name] ?? { t: [], value: [] };
        series[name] = { t: [...had.t, ...t], value: [...had.value, ...value] };
      }
      return { ...one, series };
    });
  };
  return { ...news, processes: part(before.processes, news.processes), hosts: part(before.hosts, news.hosts) };
}

/** The lines of one measure, one for each process that has it; the busiest first, at most so many. */
export function linesOf(of: ProcessUsage[], measure: string, color: (at: number) => string, most = 12): Line[] {
  return of
    .filter((one) => one.series[measure]?.t.length)
    .map((one, i) => ({ label: [one.name || "process", one.pid || ""].join(" ").trim(), color: color(i), x: one.series[measure].t, y: one.series[measure].value }))
    .slice(0, most);
}

const UNITS: [RegExp, string][] = [
  [/_bytes_per_s$/, "bytes/s"],
  [/_per_s$/, "per second"],
  [/_percent$/, "%"],
  [/_bytes$/, "bytes"],
  [/_w$/, "W"],
  [/_c$/, "°C"],
  [/_mhz$/, "MHz"],
  [/_j$/, "J"],
  [/_s$/, "s"],
];

/** A measure's name in words, what it is of, and its unit: `disk_busy_percent disk=vda` is busy disk, vda, %. */
export function spoken(measure: string): { words: string; of: string; unit: string } {
  const [name, ...tags] = measure.split(" ");
  const [suffix, unit] = UNITS.find(([ending]) => ending.test(name)) ?? [null, ""];
  const words = (suffix ? name.replace(suffix, "") : name).replaceAll("_", " ").replace(/\b(cpu|gpu|io)\b/g, (word) => word.toUpperCase());
  return { words: words.charAt(0).toUpperCase() + words.slice(1), of: tags.map((tag) => tag.replace(/^[^=]*=/, "")).join(" "), unit };
}

/** Measures that were never anything but nothing. */
export function idle(of: ProcessUsage[], measure: string): boolean {
  return of.every((one) => one.series[measure]?.value.every((value) => !value) ?? true);
}

/** All measures that anybody has, the usual ones first. */
export function measures(of: ProcessUsage[]): string[] {
  const all = new Set(of.flatMap((one) => Object.keys(one.series).filter((name) => one.series[name].t.length)));
  const first = ["cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes"];
  return [...first.filter((name) => all.has(name)), ...[...all].filter((name) => !first.includes(name)).sort()];
}
