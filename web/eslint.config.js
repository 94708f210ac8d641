import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import { defineConfig } from "eslint/config";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

export default defineConfig(
  js.configs.recommended,
  ts.configs.recommendedTypeChecked,
  svelte.configs.recommended,
  svelte.configs.prettier,
  {
    languageOptions: {
      globals: globals.browser,
      parserOptions: { projectService: true, extraFileExtensions: [".svelte"] },
    },
    rules: {
      "max-len": ["error", { code: 120 }], // prettier does not break comments and strings
      "no-control-regex": "off", // lib/ansi.ts looks for terminal escape codes
      "svelte/no-useless-mustaches": "off", // {" "} keeps a space that Svelte would drop
      "svelte/require-each-key": "off", // a duplicate key in user data would break the page; rows that move have keys
      "svelte/prefer-svelte-reactivity": "off", // maps and sets are replaced ($state.raw), never mutated
    },
  },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
  },
  {
    // Imports go one way: pages use parts, and both use lib.
    files: ["src/lib/**", "src/parts/**"],
    rules: { "no-restricted-imports": ["error", { patterns: ["**/pages/**"] }] },
  },
  {
    files: ["src/lib/**"],
    rules: { "no-restricted-imports": ["error", { patterns: ["**/pages/**", "**/parts/**"] }] },
  },
  {
    files: ["**/*.svelte"],
    rules: {
      // In markup, eslint types values from other components and from `{#each}` as `any`; svelte-check checks them.
      "@typescript-eslint/no-redundant-type-constituents": "off",
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
    },
  },
  {
    files: ["*.js"], // config files run in node, and have no types
    extends: [ts.configs.disableTypeChecked],
    languageOptions: { globals: globals.node, parserOptions: { projectService: false } },
  },
);
