// A page, compiled without the types of Node.js.
import { Client, IndexedDBStorage, Sender } from "@effectively-once/client";

const client = new Client(location.origin);
const sender = await Sender.open({ client, stream: "orders", storage: new IndexedDBStorage("orders of ann"), onRefused: (r) => alert(r.problem.title) });
await sender.send({ body: "{}" });
for await (const entry of client.tail("chat", "lobby", { after: "now" })) document.body.append(String(entry.body));
