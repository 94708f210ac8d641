/** The colours of lines, in order, for the light and the dark theme. */

export const LIGHT = [
  "#2a78b5",
  "#d4691c",
  "#2f8f5b",
  "#b8417a",
  "#7a5cc0",
  "#8a6d1f",
  "#1b8f98",
  "#c0392b",
  "#5d6b7a",
  "#6f8f1a",
];
export const DARK = [
  "#6cb2eb",
  "#f2994a",
  "#62c48c",
  "#ec7fb0",
  "#b39af0",
  "#d8b04c",
  "#4fc4cd",
  "#f07c6e",
  "#a3b1c2",
  "#b2d04c",
];
