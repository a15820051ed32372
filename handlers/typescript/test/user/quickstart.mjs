// Plays the quickstart of the README with the installed package and the server, whose binary is in
// the variable ONCE.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const readme = readFileSync("node_modules/@effectively-once/handler/README.md", "utf8");
const port = 20_000 + Math.floor(Math.random() * 10_000);
const url = `http://127.0.0.1:${port}`;
writeFileSync("once.yaml", /```yaml\n(.*?)```/s.exec(readme)[1]);
copyFileSync("readme-0.js", "orders.js");

const server = spawn(process.env.ONCE, ["dev", "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "ignore", "inherit"] });
for (const deadline = Date.now() + 60_000; !(await fetch(`${url}/healthz`).catch(() => undefined))?.ok; await sleep(50)) {
  if (server.exitCode !== null || Date.now() > deadline) throw new Error("the server of the quickstart does not get ready");
}
try {
  const sends = [...readme.matchAll(/^once (send orders) '(.*)' (--key .*)$/gm)].map(([, command, body, flags]) => {
    return execFileSync(process.env.ONCE, [...command.split(" "), body, ...flags.split(" "), "--url", url], { encoding: "utf8" });
  });
  console.log(sends.join(""));
  if (sends.length !== 2 || !sends.every((s) => s.includes('reply 201 {"left":700}'))) throw new Error("both sends of the quickstart must get the reply 201 with 700 left");
  const effects = readFileSync("out/warehouse.jsonl", "utf8").trim().split("\n");
  if (effects.length !== 1 || JSON.parse(effects[0]).body.item !== "lamp") throw new Error(`want one effect about a lamp, have ${effects}`);
} finally {
  server.kill();
  await once(server, "exit");
}
