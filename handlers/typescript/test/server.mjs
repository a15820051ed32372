// A once server as a process of its own, in a folder of its own. The variable ONCE names the binary.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** until waits until a function returns something, and fails with a text if it never does. */
export async function until(what, get) {
  for (const deadline = Date.now() + 60_000; ; await sleep(20)) {
    const got = await get();
    if (got) return got;
    if (Date.now() > deadline) throw new Error(`waited for a minute: ${what}`);
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** serve starts a server of node:http for the time of a test, and returns its URL. */
export async function serve(t, listener) {
  const server = createServer({ keepAliveTimeout: 120_000 }, listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}/`;
}

export class Server {
  log = "";

  /** start starts `once dev` with a configuration. */
  static async start(t, configuration, env = {}) {
    const binary = process.env.ONCE;
    if (!binary) throw new Error("ONCE must name the binary of the command once");
    const s = new Server();
    s.folder = mkdtempSync(join(tmpdir(), "once-handler"));
    writeFileSync(join(s.folder, "once.yaml"), configuration);
    const port = await freePort();
    s.url = `http://127.0.0.1:${port}`;
    const child = spawn(binary, ["dev", "--listen", `127.0.0.1:${port}`], { cwd: s.folder, env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "pipe"] });
    child.stderr.setEncoding("utf8").on("data", (part) => (s.log += part));
    t.after(async () => {
      if (child.exitCode === null) {
        child.kill("SIGTERM");
        await once(child, "exit");
      }
      rmSync(s.folder, { recursive: true, force: true });
    });
    await until("the server gets ready", async () => {
      if (child.exitCode !== null) throw new Error(`the server has ended: ${s.log}`);
      return (await fetch(`${s.url}/healthz`).catch(() => undefined))?.ok;
    });
    return s;
  }

  /** send sends a message, and returns the status and the text of the answer. */
  async send(stream, group, key, body, { wait = 30 } = {}) {
    const headers = { "Idempotency-Key": `"${key}"`, "Once-Group": group, "Content-Type": "application/json", Prefer: `wait=${wait}` };
    const response = await fetch(`${this.url}/v1/streams/${stream}/messages`, { method: "POST", headers, body: JSON.stringify(body) });
    return [response.status, (await response.text()).trim()];
  }

  /** lines returns the effects in a file, once there are so many. */
  lines(name, count) {
    return until(`${count} lines in ${name}; the server says: ${this.log}`, () => {
      const lines = this.#read(name);
      return lines.length >= count && lines;
    });
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
