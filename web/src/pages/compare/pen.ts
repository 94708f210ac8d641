/** Drawing: the same calls paint a canvas on the screen or write SVG to a file. */

export type Stroke = { color: string; width?: number; dash?: number[]; alpha?: number };
export type Text = {
  color: string;
  size?: number;
  anchor?: "start" | "middle" | "end";
  weight?: number;
  turn?: boolean;
  most?: number;
};

export interface Pen {
  /** Draw a line through points; NaN in y breaks it. */
  line(x: ArrayLike<number>, y: ArrayLike<number>, stroke: Stroke): void;
  /** Fill the area between two lines. */
  band(x: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>, color: string, alpha: number): void;
  rect(x: number, y: number, w: number, h: number, fill: string, alpha?: number): void;
  dot(x: number, y: number, r: number, fill: string, alpha?: number, ring?: string): void;
  triangle(x: number, y: number, size: number, fill: string): void;
  text(x: number, y: number, text: string, style: Text): void;
  /** Clip what `draw` draws to a box. */
  within(x: number, y: number, w: number, h: number, draw: () => void): void;
}

const PIECE = 64;
const FONT = '"Inter", "Segoe UI", system-ui, "Liberation Sans", sans-serif';

export class CanvasPen implements Pen {
  constructor(readonly ctx: CanvasRenderingContext2D) {}

  line(x: ArrayLike<number>, y: ArrayLike<number>, { color, width = 1.5, dash = [], alpha = 1 }: Stroke): void {
    const { ctx } = this;
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.lineJoin = "bevel";
    ctx.setLineDash(dash);
    ctx.beginPath();
    let down = false;
    for (let i = 0; i < x.length; i++) {
      if (Number.isNaN(y[i])) down = false;
      else if (down) ctx.lineTo(x[i], y[i]);
      else {
        ctx.moveTo(x[i], y[i]);
        down = true;
      }
      // Stroke long lines in pieces: one path that crosses itself often is far slower.
      if (down && i % PIECE === PIECE - 1 && dash.length === 0) {
        ctx.stroke();
        ctx.beginPath();
        ctx.moveTo(x[i], y[i]);
      }
    }
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
  }

  band(x: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>, color: string, alpha: number): void {
    const { ctx } = this;
    ctx.globalAlpha = alpha;
    ctx.fillStyle = color;
    for (const [from, to] of pieces(low, high)) {
      ctx.beginPath();
      for (let i = from; i < to; i++) ctx.lineTo(x[i], high[i]);
      for (let i = to - 1; i >= from; i--) ctx.lineTo(x[i], low[i]);
      ctx.fill();
    }
    ctx.globalAlpha = 1;
  }

  rect(x: number, y: number, w: number, h: number, fill: string, alpha = 1): void {
    this.ctx.globalAlpha = alpha;
    this.ctx.fillStyle = fill;
    this.ctx.fillRect(x, y, w, h);
    this.ctx.globalAlpha = 1;
  }

  dot(x: number, y: number, r: number, fill: string, alpha = 1, ring?: string): void {
    const { ctx } = this;
    ctx.globalAlpha = alpha;
    ctx.fillStyle = fill;
    ctx.beginPath();
    ctx.arc(x, y, r, 0, 2 * Math.PI);
    ctx.fill();
    if (ring) {
      ctx.strokeStyle = ring;
      ctx.lineWidth = 1.5;
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }

  triangle(x: number, y: number, size: number, fill: string): void {
    const { ctx } = this;
    ctx.fillStyle = fill;
    ctx.beginPath();
    ctx.moveTo(x - size, y);
    ctx.lineTo(x + size, y);
    ctx.lineTo(x, y - size * 1.7);
    ctx.fill();
  }

  text(
    x: number,
    y: number,
    text: string,
    { color, size = 11, anchor = "start", weight = 400, turn = false, most }: Text,
  ): void {
    const { ctx } = this;
    ctx.font = `${weight} ${size}px ${FONT}`;
    ctx.fillStyle = color;
    ctx.textAlign = anchor === "middle" ? "center" : anchor;
    ctx.textBaseline = "alphabetic";
    let shown = text;
    if (most)
      while (shown.length > 2 && ctx.measureText(shown).width > most) shown = `${shown.slice(0, -2).trimEnd()}…`;
    ctx.save();
    ctx.translate(x, y);
    if (turn) ctx.rotate(-Math.PI / 2);
    ctx.fillText(shown, 0, 0);
    ctx.restore();
  }

  within(x: number, y: number, w: number, h: number, draw: () => void): void {
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(x, y, w, h);
    this.ctx.clip();
    draw();
    this.ctx.restore();
  }
}

export class SvgPen implements Pen {
  #parts: string[] = [];
  #clips = 0;
  readonly #name = `c${Math.random().toString(36).slice(2, 8)}`; // prefix of clip ids, unique per picture

  line(x: ArrayLike<number>, y: ArrayLike<number>, { color, width = 1.5, dash = [], alpha = 1 }: Stroke): void {
    let d = "";
    let down = false;
    for (let i = 0; i < x.length; i++) {
      if (Number.isNaN(y[i])) down = false;
      else {
        d += `${down ? "L" : "M"}${n(x[i])} ${n(y[i])}`;
        down = true;
      }
    }
    if (!d) return;
    const more =
      (dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "") + (alpha < 1 ? ` stroke-opacity="${n(alpha)}"` : "");
    this.#parts.push(
      `<path d="${d}" fill="none" stroke="${escape(color)}" stroke-width="${width}" stroke-linejoin="round"${more}/>`,
    );
  }

  band(x: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>, color: string, alpha: number): void {
    for (const [from, to] of pieces(low, high)) {
      const points: string[] = [];
      for (let i = from; i < to; i++) points.push(`${n(x[i])},${n(high[i])}`);
      for (let i = to - 1; i >= from; i--) points.push(`${n(x[i])},${n(low[i])}`);
      this.#parts.push(`<polygon points="${points.join(" ")}" fill="${escape(color)}" fill-opacity="${n(alpha)}"/>`);
    }
  }

  rect(x: number, y: number, w: number, h: number, fill: string, alpha = 1): void {
    this.#parts.push(`<rect ${box(x, y, w, h)}${filled(fill, alpha)}/>`);
  }

  dot(x: number, y: number, r: number, fill: string, alpha = 1, ring?: string): void {
    const edge = ring ? ` stroke="${escape(ring)}" stroke-width="1.5"` : "";
    this.#parts.push(`<circle cx="${n(x)}" cy="${n(y)}" r="${n(r)}"${filled(fill, alpha)}${edge}/>`);
  }

  triangle(x: number, y: number, size: number, fill: string): void {
    this.#parts.push(
      `<path d="M${n(x - size)} ${n(y)}L${n(x + size)} ${n(y)}L${n(x)} ${n(y - size * 1.7)}Z" fill="${escape(fill)}"/>`,
    );
  }

  text(
    x: number,
    y: number,
    text: string,
    { color, size = 11, anchor = "start", weight = 400, turn = false, most }: Text,
  ): void {
    // SVG text cannot be measured here: assume that a letter is 0.56 times as wide as high.
    const room = most ? Math.max(2, Math.floor(most / (size * 0.56))) : Infinity;
    const shown = text.length > room ? `${text.slice(0, room - 1)}…` : text;
    const turned = turn ? ` transform="rotate(-90 ${n(x)} ${n(y)})"` : "";
    const style = `font-size="${size}" font-weight="${weight}" text-anchor="${anchor}"${filled(color, 1)}${turned}`;
    this.#parts.push(`<text x="${n(x)}" y="${n(y)}" ${style}>${escape(shown)}</text>`);
  }

  within(x: number, y: number, w: number, h: number, draw: () => void): void {
    const id = `${this.#name}-${this.#clips++}`;
    this.#parts.push(`<clipPath id="${id}"><rect ${box(x, y, w, h)}/></clipPath><g clip-path="url(#${id})">`);
    draw();
    this.#parts.push("</g>");
  }

  /** Return the SVG document. */
  done(width: number, height: number, ground: string, title: string): string {
    const size = `width="${n(width)}" height="${n(height)}" viewBox="0 0 ${n(width)} ${n(height)}"`;
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" font-family="${escape(FONT)}">`,
      `<title>${escape(title)}</title><rect width="100%" height="100%" fill="${escape(ground)}"/>`,
      ...this.#parts,
      "</svg>",
    ].join("");
  }
}

/** Escape text for XML and HTML, also for quoted attributes. */
export function escape(text: string): string {
  const safe: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/[&<>"']/g, (one) => safe[one]);
}

const n = (value: number): string => String(Math.round(value * 100) / 100);
const box = (x: number, y: number, w: number, h: number): string =>
  `x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"`;
const filled = (color: string, alpha: number): string =>
  ` fill="${escape(color)}"${alpha < 1 ? ` fill-opacity="${n(alpha)}"` : ""}`;

/** Yield the index ranges in which both edges are numbers. */
function* pieces(low: ArrayLike<number>, high: ArrayLike<number>): Generator<[number, number]> {
  let from = -1;
  for (let i = 0; i <= low.length; i++) {
    const there = i < low.length && !Number.isNaN(low[i]) && !Number.isNaN(high[i]);
    if (there && from < 0) from = i;
    if (!there && from >= 0) {
      yield [from, i];
      from = -1;
    }
  }
}
