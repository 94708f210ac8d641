/** Files that a run saved itself, apart from what was taken down of it: that is told on the tabs of code and config. */
import type { FileShape } from "../../lib/api";

export const PACKAGES = "packages.json";
const TAKEN = new Set(["code.manifest", "git.diff", PACKAGES, "packages.direct.json"]);

export const isOwn = (file: FileShape): boolean => !TAKEN.has(file.name);
