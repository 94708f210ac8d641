import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

process.env.TZ = "Europe/Berlin"; // a place whose clocks change

// Apart from vite.config.js, which a build reads where the tools are not installed.
export default defineConfig({
  plugins: [svelte()],
  test: {
    include: ["tests/**/*.test.ts"],
    pool: "threads",
    maxWorkers: 1, // a worker more costs more than these tests
    isolate: false,
  },
});
