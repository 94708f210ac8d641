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
      "max-len": ["error", { code: 120 }], // prettier breaks code, but neither comments nor texts
      "no-control-regex": "off", // escape codes of terminals are just what is looked for
      "svelte/no-useless-mustaches": "off", // {" "} keeps a space that would be dropped otherwise
      "svelte/require-each-key": "off", // a key that a user's data repeats breaks the page; rows that move have one
      "svelte/prefer-svelte-reactivity": "off", // maps and sets are replaced whole ($state.raw), never changed in place
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
      // In markup eslint takes what comes from another component, or from `{#each}`, for `any`; svelte-check knows it.
      "@typescript-eslint/no-redundant-type-constituents": "off",
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
    },
  },
  {
    files: ["*.js"], // what configures the tools runs in node, and has no types
    extends: [ts.configs.disableTypeChecked],
    languageOptions: { globals: globals.node, parserOptions: { projectService: false } },
  },
);
