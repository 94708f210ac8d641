import { expect, it } from "vitest";
import { tunnelTo } from "../src/lib/link";

it("knows which links need a tunnel, and which port it has", () => {
  const tunnel = "ssh -L 7991:127.0.0.1:7991 HOST";
  for (const host of ["127.0.0.1", "127.8.0.1", "localhost", "box.localhost", "[::1]"])
    expect(tunnelTo(`http://${host}:7991/run/a?token=share.1`)).toBe(tunnel);
  for (const host of ["box.example", "127.0.0.1.example", "192.168.1.5", "[fe80::1]", "localhost.example"])
    expect(tunnelTo(`https://${host}:7991/`)).toBe("");
  expect(tunnelTo("https://localhost/")).toBe("ssh -L 443:127.0.0.1:443 HOST");
});
