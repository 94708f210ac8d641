import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

process.env.TZ = "Europe/Berlin"; // a time zone with daylight saving time

// Separate from vite.config.js, because a build without the dev tools cannot import vitest.
export default defineConfig({
  plugins: [svelte()],
  test: {
    include: ["tests/**/*.test.ts"],
    pool: "threads",
    maxWorkers: 1, // starting a second worker takes longer than the tests
    isolate: false,
  },
});
