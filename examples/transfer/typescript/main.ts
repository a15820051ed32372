// Moves money between accounts, effectively once: the handler of ../transfer.go in TypeScript.
//
//   ./build.sh
//   once dev                                 # starts it as a program
//   ONCE_SECRET=… node dist/main.js 8090     # or it is called by its URL

import { createServer } from "node:http";
import { exec } from "@effectively-once/handler/exec";
import { listener } from "@effectively-once/handler/node";
import { transfer } from "./transfer.ts";

const port = process.argv[2];
if (port) createServer({ keepAliveTimeout: 120_000 }, listener(transfer)).listen(Number(port), "127.0.0.1");
else await exec(transfer);
