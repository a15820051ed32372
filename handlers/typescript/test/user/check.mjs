// Compiles the programs of this folder, and those in the README, with the installed package, as
// users do.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const strict = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022"];
const tsc = (...args) => execFileSync("npx", ["--no-install", "tsc", ...strict, ...args], { stdio: "inherit" });

const readme = readFileSync("node_modules/@effectively-once/handler/README.md", "utf8");
const programs = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code], i) => {
  writeFileSync(`readme-${i}.ts`, code);
  return `readme-${i}.ts`;
});
if (programs.length !== 2) throw new Error(`the README has ${programs.length} programs, not 2`);

tsc("--module", "nodenext", "--lib", "es2022", "--types", "node", "node.ts", ...programs);
tsc("--noEmit", "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable,dom.asynciterable", "--types", "", "orders.ts");
