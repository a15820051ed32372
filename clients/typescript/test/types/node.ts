// A program for Node.js, compiled without the types of browsers.
import { Client, Problem, Sender, type Receipt } from "@effectively-once/client";
import { FileStorage } from "@effectively-once/client/file";

const client = new Client("http://127.0.0.1:8080", { headers: async () => ({ Authorization: "Bearer token" }) });

export async function book(order: object): Promise<Receipt | string> {
  try {
    return await client.send({ stream: "orders", key: "order-1", body: JSON.stringify(order) }, { wait: 10, signal: AbortSignal.timeout(30_000) });
  } catch (e) {
    if (e instanceof Problem && e.type === "key-reuse") return e.detail;
    throw e;
  }
}

const sender = await Sender.open({ client, stream: "orders", storage: new FileStorage("outbox") });
await sender.send({ group: "customer-7", body: new Uint8Array([1]) });
const offset: string | undefined = client.tail("orders", "customer-7").offset;
console.log(offset);
