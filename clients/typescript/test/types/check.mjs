// Compiles the programs of this folder with the installed package, as users do.

import { execFileSync } from "node:child_process";

const strict = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022"];
const tsc = (...args) => execFileSync("npx", ["--no-install", "tsc", ...strict, ...args], { stdio: "inherit" });
tsc("--module", "nodenext", "--lib", "es2022", "--types", "node", "node.ts");
tsc("--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable,dom.asynciterable", "--types", "", "browser.ts");
