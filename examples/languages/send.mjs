// Sends one shipment under a key, and sends it again until the server has it.
//
//   node send.mjs shipment-1 customer-7 '{"item": 7}'

import { setTimeout as sleep } from "node:timers/promises";

// send returns the answer. It throws if the message is refused.
export async function send(stream, key, group, body, base = "http://127.0.0.1:8080") {
  for (let pause = 100; ; pause = Math.min(2 * pause, 10_000)) {
    try {
      const answer = await fetch(`${base}/v1/streams/${stream}/messages`, {
        method: "POST",
        headers: {
          "Idempotency-Key": key,
          "Once-Group": group,
          "Content-Type": "application/json",
          Prefer: "wait=10",
        },
        body,
        signal: AbortSignal.timeout(30_000),
      });
      if (answer.ok) return answer;
      if (answer.status < 500 && ![408, 409, 425, 429].includes(answer.status)) {
        throw new Refused(answer.status, await answer.text()); // it would be refused again
      }
    } catch (e) {
      if (e instanceof Refused) throw e;
      // No answer: the message may have been accepted, so the key stays the same.
    }
    await sleep(pause * (0.5 + Math.random() / 2));
  }
}

class Refused extends Error {
  constructor(status, text) {
    super(`${status} ${text}`);
  }
}

const [key, group, body] = process.argv.slice(2);
const answer = await send("shipments", key, group, body);
console.log(answer.status, (await answer.text()).trim(), "replayed:", answer.headers.get("Idempotent-Replayed"));
