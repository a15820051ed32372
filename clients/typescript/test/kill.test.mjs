import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Server, temporary } from "./server.mjs";

const count = 200;

for (const [stream, name] of [["orders", "messages with keys"], ["numbered", "numbered messages"]]) {
  test(`${name} take effect once and in order, although server and senders are killed`, async (t) => {
    const server = await Server.start(t);
    const folder = temporary(t);
    const phones = ["ann", "bob"].map((source) => ({ source, done: false }));
    const start = (p) => {
      const args = [server.url, join(folder, p.source), stream, p.source, String(count)];
      p.process = fork(new URL("phone.mjs", import.meta.url), args, { stdio: "inherit" });
      p.exit = once(p.process, "exit").then(([code]) => (p.done = code === 0));
    };
    t.after(() => phones.forEach((p) => p.process.kill("SIGKILL")));
    phones.forEach(start);
    for (let kills = 0; kills < 8; kills++) {
      await sleep(50 + Math.random() * 250);
      if (kills % 3 === 0) {
        await server.kill();
        await server.start();
      }
      const p = phones[kills % 2];
      p.process.kill("SIGKILL");
      await p.exit;
      start(p); // after its end, too: what it has sent is not sent again
    }
    await Promise.all(phones.map((p) => p.exit));
    assert.deepEqual(phones.map((p) => p.done), [true, true], "both senders must end without an error");
    const lines = await server.lines(`${stream}.jsonl`, 2 * count);
    const want = Array.from({ length: count }, (_, i) => i + 1);
    for (const p of phones) {
      const got = lines.filter((l) => l.group === p.source).map((l) => l.body);
      assert.deepEqual(got, want, `the effects of ${p.source}, each once and in order`);
    }
    assert.equal(lines.length, 2 * count);
  });
}
