// Receives webhooks: verifies each, and does its work once.
//
//   node receive.js 8091 out/webhook-secret out/orders.jsonl
//
// The id and the work are one line of a file here, so one write saves both. With a database, save
// both in one transaction.

import { createHmac, timingSafeEqual } from "node:crypto";
import { fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";

const [port, secretFile, journal] = process.argv.slice(2);
const secret = Buffer.from(readFileSync(secretFile, "utf8").trim().replace(/^whsec_/, ""), "base64");
const file = openSync(journal, "a+");
const seen = new Set(readJournal().map((line) => name(line.id, line.incarnation)));

// readJournal returns the lines, and cuts off one that a crash left unfinished.
function readJournal(): { id: string; incarnation: string }[] {
  const text = readFileSync(journal, "utf8");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  ftruncateSync(file, Buffer.byteLength(whole));
  return whole.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

function name(id: string, incarnation: string): string {
  return `${id}@${incarnation}`;
}

// genuine reports whether the signature is right and less than five minutes old.
function genuine(headers: IncomingHttpHeaders, body: Buffer): boolean {
  const at = headers["webhook-timestamp"];
  if (!at || !(Math.abs(Date.now() / 1000 - Number(at)) <= 300)) return false;
  const mac = createHmac("sha256", secret).update(`${headers["webhook-id"]}.${at}.`).update(body).digest("base64");
  const want = Buffer.from(`v1,${mac}`);
  return String(headers["webhook-signature"]).split(" ").some((s) => {
    const got = Buffer.from(s);
    return got.length === want.length && timingSafeEqual(got, want);
  });
}

// once does the work and remembers the id. It reports whether the id was new.
function once(id: string, incarnation: string, body: string): boolean {
  if (seen.has(name(id, incarnation))) return false;
  writeSync(file, JSON.stringify({ id, incarnation, body }) + "\n");
  fsyncSync(file);
  seen.add(name(id, incarnation));
  return true;
}

createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  if (!genuine(request.headers, body)) return response.writeHead(401).end();
  const id = String(request.headers["webhook-id"]);
  const isNew = once(id, String(request.headers["once-incarnation"] ?? ""), body.toString());
  console.log(isNew ? "received" : "known", id, body.toString());
  response.writeHead(204).end();
}).listen(Number(port), "127.0.0.1", () => console.log(`receiving at http://127.0.0.1:${port}/hook`));
