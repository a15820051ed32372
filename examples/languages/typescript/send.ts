// Sends orders, each until the server has it.
//
//   node send.js http://127.0.0.1:8080 orders outbox.json customer-7 '{"item": 7}'
//
// An order and its key are in the outbox before the first try. If the program was killed, its next
// run sends the order that is left there, under the same key.

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

interface Order {
  key: string;
  group: string;
  body: string;
}

// writeDown saves an order with a new key, so that it survives a crash.
function writeDown(outbox: string, group: string, body: string): void {
  const order: Order = { key: crypto.randomUUID(), group, body };
  const file = openSync(`${outbox}.new`, "w");
  writeSync(file, JSON.stringify(order));
  fsyncSync(file);
  closeSync(file);
  renameSync(`${outbox}.new`, outbox);
}

// send returns the answer: the handler's reply, or the server's receipt. Every try has the same key.
async function send(url: string, stream: string, order: Order): Promise<Response> {
  const headers = {
    "Idempotency-Key": order.key,
    "Once-Group": order.group,
    "Content-Type": "application/json",
    Prefer: "wait=10", // for the handler's reply
  };
  for (let pause = 100; ; pause = Math.min(2 * pause, 10_000)) {
    let asked = 0;
    try {
      const signal = AbortSignal.timeout(30_000);
      const answer = await fetch(`${url}/v1/streams/${stream}/messages`, { method: "POST", headers, body: order.body, signal });
      const again = answer.status >= 500 || [408, 409, 425, 429].includes(answer.status);
      if (answer.headers.get("Once-Reply") === "true" || !again) return answer;
      asked = 1000 * Number(answer.headers.get("Retry-After") ?? 0);
    } catch {
      // No answer: the order may have been accepted, so the key stays the same.
    }
    await sleep(Math.max(asked, pause * (0.5 + Math.random() / 2)));
  }
}

// deliver sends the order in the outbox, and removes it.
async function deliver(url: string, stream: string, outbox: string): Promise<void> {
  const answer = await send(url, stream, JSON.parse(readFileSync(outbox, "utf8")));
  console.log(answer.status, (await answer.text()).trim(), "replayed:", answer.headers.get("Idempotent-Replayed"));
  if (answer.ok || answer.headers.get("Once-Reply") === "true") rmSync(outbox);
  else renameSync(outbox, `${outbox}.refused`); // it would be refused again: a person has to look
}

const [url, stream, outbox, group, body] = process.argv.slice(2);
if (existsSync(outbox)) await deliver(url, stream, outbox);
if (group && body) {
  writeDown(outbox, group, body);
  await deliver(url, stream, outbox);
}
