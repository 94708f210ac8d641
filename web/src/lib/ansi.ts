/** Split text with ANSI colour codes into pieces of one style each; drop all other control codes. */

export type Piece = { text: string; style: string };

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;
const COLOUR = /\x1b\[([0-9;:]*)m/; // the only alternative of CODES with a capture group
const OTHERS = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]/;
const CODES = new RegExp([COLOUR, OTHERS, CONTROL].map((one) => one.source).join("|"), "g");

export function pieces(text: string): Piece[] {
  if (!CONTROL.test(text)) return [{ text, style: "" }];
  const out: Piece[] = [];
  let color = "";
  let bold = false;
  let dim = false;
  let at = 0;
  const add = (part: string): void => {
    if (part) out.push({ text: part, style: [color, bold ? "bold" : "", dim ? "dim" : ""].filter(Boolean).join(" ") });
  };
  for (const match of text.matchAll(CODES)) {
    add(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[1] === undefined) continue;
    const codes = match[1].split(/[;:]/).map(Number);
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i];
      if (code === 0) [color, bold, dim] = ["", false, false];
      else if (code === 1) bold = true;
      else if (code === 2) dim = true;
      else if (code === 22) [bold, dim] = [false, false];
      else if (code >= 30 && code <= 37) color = NAMES[code - 30];
      else if (code >= 90 && code <= 97) color = NAMES[code - 90];
      else if (code === 39) color = "";
      else if (code === 38 || code === 48) {
        const kind = codes[i + 1];
        if (code === 38 && kind === 5 && codes[i + 2] < 16) color = NAMES[codes[i + 2] % 8];
        i += kind === 5 ? 2 : 4;
      }
    }
  }
  add(text.slice(at));
  return out;
}
