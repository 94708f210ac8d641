import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Inline nothing: the page's content security policy is default-src 'self'.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: process.env.VEDETTE_PAGE ?? "../src/vedette/views/web/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
});
