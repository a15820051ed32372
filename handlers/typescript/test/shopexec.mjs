import { exec } from "../dist/exec.js";
import { shop } from "./shop.mjs";

await exec(shop);
