// Sends messages 1 to N of a source, with a storage in a folder, until all are acknowledged:
//
//   node phone.mjs URL FOLDER STREAM SOURCE N
//
// It can be killed and started again at any time. A message that the sender has taken is noted in
// the file sent, and never made again: from then on only the storage has it. One that was not noted
// before a crash may have been taken. Under its key it can be sent again; a numbered sender knows
// from the storage.

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client, Sender } from "../dist/index.js";
import { FileStorage } from "../dist/file.js";

const [url, folder, stream, source, count] = process.argv.slice(2);
const numbered = stream === "numbered";
const client = new Client(url, { minBackoff: 10, maxBackoff: 100 });
const storage = new FileStorage(folder);
const sender = await Sender.open({ client, stream, storage, ...(numbered ? { source } : {}) });

const file = join(folder, "sent");
appendFileSync(file, "");
const noted = readFileSync(file, "utf8").length;
const taken = numbered ? await sender.last() : noted;
if (taken < noted) throw new Error(`the storage has lost messages: it has ${taken}, and had ${noted}`);

for (let n = taken + 1; n <= Number(count); n++) {
  const message = { contentType: "application/json", body: String(n) };
  await sender.send(numbered ? message : { ...message, group: source, key: `${source}-${n}` });
  appendFileSync(file, ".".repeat(n - readFileSync(file).length));
}
await sender.flush();
await sender.close();
