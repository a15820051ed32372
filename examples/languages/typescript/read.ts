// Prints the orders of a customer that are new since the last run.
//
//   node read.js http://127.0.0.1:8080 orders customer-7 offset

import { existsSync, readFileSync, writeFileSync } from "node:fs";

interface Page {
  entries: { number: number; id: string; body: unknown }[];
  next: string;
  end: boolean;
}

const [url, stream, group, offset] = process.argv.slice(2);
let after = existsSync(offset) ? readFileSync(offset, "utf8") : "";
for (;;) {
  // With wait=20 the server waits for the next entry, if there is none: to follow the log, go on in
  // place of the break.
  const query = new URLSearchParams({ wait: "0", ...(after && { after }) });
  const answer = await fetch(`${url}/v1/streams/${stream}/groups/${encodeURIComponent(group)}/log?${query}`);
  if (!answer.ok) throw new Error(await answer.text());
  const page: Page = await answer.json();
  for (const entry of page.entries) console.log(entry.number, entry.id, JSON.stringify(entry.body));
  after = page.next;
  writeFileSync(offset, after); // a program with a database saves it in the transaction of its work
  if (page.end || page.entries.length === 0) break;
}
