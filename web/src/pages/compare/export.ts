/** Export the view as a file: PNG, SVG, CSV, or one self-contained HTML page. */
import { numeric } from "../../lib/api";
import * as format from "../../lib/format";
import { LIGHT } from "../../lib/palette";
import { session } from "../../lib/session.svelte";
import { colours } from "./colour";
import { digitsOf, said, short, token, type Table } from "./data";
import type { Curve, Entry } from "./facets";
import { INKS, type Ink } from "./figure";
import { CanvasPen, escape, SvgPen, type Pen } from "./pen";

export type Picture = {
  title: string;
  width: number;
  height: number;
  draw: (pen: Pen, ink: Ink) => void;
  legends: { title: string; entries: Entry[] }[];
  csv?: () => string | Promise<string>;
};

/** Download a file. */
export function keep(name: string, media: string, content: string | Blob | null): void {
  if (content === null) return session.say("The picture is too large for this browser. Export it as SVG.", true);
  const address = URL.createObjectURL(
    typeof content === "string" ? new Blob([content], { type: `${media};charset=utf-8` }) : content,
  );
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Draw the picture with its legends below; returns the total height. */
function whole(pen: Pen, picture: Picture, ink: Ink): number {
  picture.draw(pen, ink);
  let y = picture.height + 18;
  for (const legend of picture.legends) {
    let x = 46;
    pen.text(x, y, legend.title, { color: ink.ink3, size: 11 });
    x += 14 + legend.title.length * 6.2;
    for (const entry of legend.entries.slice(0, 60)) {
      const wide = 40 + entry.label.length * 6.4;
      if (x + wide > picture.width) [x, y] = [60, y + 18];
      pen.line([x, x + 18], [y - 4, y - 4], {
        color: entry.color || ink.ink2,
        width: entry.color ? 3 : 2,
        dash: entry.dash,
      });
      pen.text(x + 24, y, entry.label, { color: ink.ink, size: 11 });
      x += wide;
    }
    y += 20;
  }
  return y;
}

export function svgOf(picture: Picture, dark: boolean): string {
  const ink = INKS[dark ? "dark" : "light"];
  const pen = new SvgPen();
  const height = whole(pen, picture, ink);
  return pen.done(picture.width, height, ink.ground, picture.title);
}

export function pngOf(picture: Picture, dark: boolean): Promise<Blob | null> {
  const ink = INKS[dark ? "dark" : "light"];
  const height = whole(new SvgPen(), picture, ink);
  const ratio = Math.min(2, 16_000 / Math.max(picture.width, height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(picture.width * ratio), Math.round(height * ratio)];
  const ctx = canvas.getContext("2d")!;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = ink.ground;
  ctx.fillRect(0, 0, picture.width, height);
  whole(new CanvasPen(ctx), picture, ink);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** Format a CSV cell. Text that a spreadsheet would run as a formula gets a quote in front, as in `cli/output.py`. */
export function cell(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return String(value);
  let text = typeof value === "string" ? value : JSON.stringify(value);
  if (/^[=+\-@\t\r]/.test(text) && numeric(value) === null) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

const rows = (lines: unknown[][]): string => `${lines.map((line) => line.map(cell).join(",")).join("\r\n")}\r\n`;

/** CSV with a line per run: the given properties, or else all keys and last values of metrics. */
export function csvOf(table: Table, properties?: string[]): string {
  const keys = properties ?? [
    ...table.of.keys.map((one) => one.key),
    ...table.of.metrics.map((one) => `metric.${one.name}`),
  ];
  return rows([
    ["run", "name", "state", ...keys],
    ...table.of.runs.map((run, place) => [run.id, run.name, run.state, ...keys.map((key) => table.value(key, place))]),
  ]);
}

/** CSV with a line per point of each curve. */
export function curvesCsv(table: Table, curves: Curve[], x: string): string {
  const varying = table.differing().filter((key) => key.startsWith("config."));
  const lines: unknown[][] = [
    [
      ...["curve", "runs", "metric", ...varying, x === "time" ? "seconds" : "step", "value", "low", "high"],
      ...["curves_here", "points_here", "std_of_points"],
    ],
  ];
  for (const curve of curves) {
    const places = curve.runs.map((run) => table.places.get(run) ?? -1);
    const varyingValues = varying.map((key) => {
      const values = places.map((place) => table.value(key, place));
      return new Set(values.map(token)).size === 1 ? values[0] : "";
    });
    for (let i = 0; i < curve.x.length; i++)
      lines.push([
        curve.label,
        curve.runs.join(" "),
        curve.metric,
        ...varyingValues,
        curve.x[i],
        curve.y[i],
        curve.low?.[i],
        curve.high?.[i],
        curve.of?.members[i],
        curve.of?.points[i],
        curve.of?.deviation[i],
      ]);
  }
  return rows(lines);
}

const STYLE = `
body{font:13px/1.5 "Inter","Segoe UI",system-ui,sans-serif;color:#1c1e21;background:#fbfbfa}
body{max-width:1500px;margin:0 auto;padding:28px 24px}
h1{font-size:20px;margin:0}
h2{font-size:14px;margin:30px 0 8px}
p{color:#6e737a;margin:4px 0 20px}
figure,.wide{background:#fff;border:1px solid #ececea;border-radius:8px;overflow-x:auto}
figure{margin:0;padding:12px}
svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-size:12px;white-space:nowrap}
th,td{padding:3px 10px;text-align:left;border-bottom:1px solid #ececea}
th,td{max-width:150px;overflow:hidden;text-overflow:ellipsis}
th{font-weight:600}
th[scope=row]{position:sticky;left:0;background:#fff;font-weight:500}
.equal{opacity:.45}
`;

/** One self-contained HTML page: no scripts, no requests. The picture has the theme of the page. */
export function htmlOf(table: Table, picture: Picture | null, dark: boolean): string {
  const heads = `<tr><th></th>${table.names.map((name) => `<th scope="col">${escape(name)}</th>`).join("")}</tr>`;
  const body = (list: { key: string; values: unknown[]; differs: boolean }[]): string =>
    list
      .map(({ key, values, differs }) => {
        const by = differs ? colours(values, LIGHT, false) : null;
        const cells = values.map((value) => {
          const ground = by && value !== undefined && value !== null ? ` style="background:${by.of(value)}22"` : "";
          return `<td${ground}>${escape(said(value, digitsOf(key)))}</td>`;
        });
        return `<tr${differs ? "" : ' class="equal"'}><th scope="row">${escape(short(key))}</th>${cells.join("")}</tr>`;
      })
      .join("\n");
  const keys = [...table.of.keys]
    .sort((a, b) => Number(b.differs) - Number(a.differs))
    .map((one) => ({ key: one.key, values: table.column(one.key), differs: one.differs }));
  const lasts = table.of.metrics.map((one) => ({ key: `metric.${one.name}`, values: one.last, differs: true }));
  const ground = INKS[dark ? "dark" : "light"].ground;
  const drawn = picture
    ? `<h2>${escape(picture.title)}</h2><figure style="background:${ground}">${svgOf(picture, dark)}</figure>`
    : "";
  const title = `${table.of.runs.length} runs compared`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escape(title)}</title><style>${STYLE}</style></head>
<body><h1>${escape(title)}</h1><p>by vedette, ${escape(format.moment(Date.now()))}</p>
${drawn}
<h2>Last values</h2><div class="wide"><table><thead>${heads}</thead><tbody>
${body(lasts)}
</tbody></table></div>
<h2>Config, and what else was on record</h2><div class="wide"><table><thead>${heads}</thead><tbody>
${body(keys)}
</tbody></table></div></body></html>
`;
}
