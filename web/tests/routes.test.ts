import { describe, expect, it } from "vitest";
import { joined, parted, readRoute, toCompare, toExplain, toQuery, toRun } from "../src/lib/routes";

const HOSTILE = ["a/b", "a b", "100%", "%2F", "ü,ö", "a&b=c", "?x#y", "..", "<script>", "a+b", "漢字"];
const at = (url: string) => readRoute(new URL(url, "http://127.0.0.1:8000"));

describe("addresses of the page", () => {
  it("are read as they were written, whatever a run is called", () => {
    for (const id of HOSTILE.filter((one) => one !== "..")) {
      expect(at(toRun(id))).toMatchObject({ page: "run", id, tab: "" });
      expect(at(toRun(id, "logs"))).toMatchObject({ page: "run", id, tab: "logs" });
    }
    for (const a of HOSTILE)
      for (const b of HOSTILE) {
        const { page, query } = at(toExplain(a, b));
        expect([page, query.get("a"), query.get("b")]).toEqual(["explain", a, b]);
      }
    const compared = at(toCompare(HOSTILE));
    expect(compared.page).toBe("compare");
    expect(parted(compared.query.get("runs") ?? "")).toEqual(HOSTILE);
  });

  it("that nobody has written lead nowhere", () => {
    expect(at("/").page).toBe("runs");
    for (const path of ["/nothing", "/run", "/run/a/b/c", "/compare/a", "/explain/x"])
      expect(at(path).page).toBe("nowhere");
    expect(at("/run/%E0%A4%A")).toMatchObject({ page: "run", id: "%E0%A4%A" });
  });

  it("keep their query, easy to read", () => {
    const query = new URLSearchParams({ m: "train/loss,val/loss", y: "0~1", where: "config.lr > 0.1" });
    const url = toQuery("/compare", query);
    expect(url).toBe("/compare?m=train/loss,val/loss&y=0~1&where=config.lr+%3E+0.1");
    expect(at(url).query.toString()).toBe(query.toString());
    expect(toQuery("/", new URLSearchParams())).toBe("/");
  });

  it("hold lists of names that have commas in them", () => {
    expect(joined(["a", "b,c", "50%"])).toBe("a,b%2Cc,50%25");
    expect(parted(joined(HOSTILE))).toEqual(HOSTILE);
    expect(parted("")).toEqual([]);
    expect(parted("a,,50%")).toEqual(["a", "50%"]);
  });
});
