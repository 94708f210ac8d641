/** Which files the run saved itself. The others were recorded by vedette; the code and config tabs show them. */
import type { FileShape } from "../../lib/api";

export const PACKAGES = "packages.json";
const RECORDED = new Set(["code.manifest", "git.diff", PACKAGES, "packages.direct.json"]);

export const isOwn = (file: FileShape): boolean => !RECORDED.has(file.name);
