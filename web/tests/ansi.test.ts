import { describe, expect, it } from "vitest";
import { pieces } from "../src/lib/ansi";

describe("colour codes of a line", () => {
  it("become styles, and every other code is dropped", () => {
    expect(pieces("plain\ttext")).toEqual([{ text: "plain\ttext", style: "" }]);
    const got = pieces("a\x1b[1;31mb\x1b[0mc\x1b[2K\x1b]8;;javascript:x\x07d\x1b]8;;\x07\x00\x9b");
    expect(got.map((one) => one.text).join("")).toBe("abcd");
    expect(got.find((one) => one.text === "b")?.style).toContain("bold");
    expect(got.find((one) => one.text === "b")?.style).not.toBe("bold");
    expect(got.find((one) => one.text === "c")?.style).toBe("");
  });

  it("that are cut off, or not known, harm nothing", () => {
    for (const text of ["\x1b[", "\x1b[38;5", "\x1b[38;5;999m x", "\x1b[;;;m x", "\x1b]never ends", "\x1b"])
      expect(() => pieces(text)).not.toThrow();
  });
});
