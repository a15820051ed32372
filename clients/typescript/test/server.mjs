// A once server as a process of its own, in a folder of its own, that can be killed and started
// again. The variable ONCE names the binary.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const configuration = `
streams:
  orders: {destinations: [orders]}
  numbered: {admission: sequence, destinations: [numbered]}
  lobby: {admission: sequence, log: {retain: 1h}}
destinations:
  orders: {file: out/orders.jsonl}
  numbered: {file: out/numbered.jsonl}
`;

/** temporary returns a folder that is removed when the test ends. */
export function temporary(t) {
  const folder = mkdtempSync(join(tmpdir(), "once-client"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** freePort returns a port below those of outgoing connections: nothing gets it while the server is down. */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = createServer();
    const free = await new Promise((resolve) => server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true)));
    if (!free) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}

export class Server {
  #process;

  static async start(t) {
    const s = new Server();
    s.folder = temporary(t);
    s.port = await freePort();
    s.url = `http://127.0.0.1:${s.port}`;
    writeFileSync(join(s.folder, "once.yaml"), configuration);
    t.after(() => s.kill());
    await s.start();
    return s;
  }

  async start() {
    const binary = process.env.ONCE;
    if (!binary) throw new Error("ONCE must name the binary of the command once");
    this.#process = spawn(binary, ["dev", "--listen", `127.0.0.1:${this.port}`], { cwd: this.folder, stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    this.#process.stderr.on("data", (part) => (log = (log + part).slice(-4000)));
    for (const deadline = Date.now() + 60_000; ; await sleep(20)) {
      if (this.#process.exitCode !== null || Date.now() > deadline) throw new Error(`the server did not get ready: ${log}`);
      const answer = await fetch(`${this.url}/healthz`).catch(() => undefined);
      if (answer?.ok) return;
    }
  }

  async kill() {
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }

  /** lines returns the effects in a file, once there are so many. */
  async lines(name, count) {
    const deadline = Date.now() + 60_000;
    for (;;) {
      const lines = this.#read(name);
      if (lines.length >= count || Date.now() > deadline) return lines;
      await sleep(20);
    }
  }

  #read(name) {
    try {
      return readFileSync(join(this.folder, "out", name), "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
    } catch (e) {
      if (e.code === "ENOENT") return [];
      throw e;
    }
  }
}

/** fake starts an HTTP server whose answers are those of a function of the request and its body. */
export async function fake(t, answer) {
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const result = await answer(request, Buffer.concat(parts).toString());
    if (!result) return request.socket.destroy();
    response.writeHead(result.status, result.headers);
    response.end(result.body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

const base = "https://github.com/effectively-once/once/blob/main/docs/http.md#";

/** problem returns an answer of the server with a problem. */
export function problem(type, status, headers = {}) {
  return { status, headers: { "Content-Type": "application/problem+json", ...headers }, body: JSON.stringify(problemDocument(type, status)) };
}

export function problemDocument(type, status) {
  return { type: base + type, title: type, status };
}
