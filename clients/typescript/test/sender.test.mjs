import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, FullError, MemoryStorage, Sender } from "../dist/index.js";
import { fake, problem, problemDocument, Server } from "./server.mjs";

const quick = { minBackoff: 1, maxBackoff: 5 };

/** batches starts a server that answers each line of a batch, and each call for an epoch, as told. */
async function batches(t, { line = accept, epoch = () => ({ status: 200, body: '{"epoch":1}' }), whole = () => undefined } = {}) {
  return fake(t, async (request, body) => {
    if (request.url.includes("/epochs/")) return epoch();
    const messages = body.split("\n").filter(Boolean).map((text) => JSON.parse(text));
    const answer = await whole(messages);
    if (answer !== undefined) return answer || undefined;
    return { status: 200, headers: { "Content-Type": "application/x-ndjson" }, body: messages.map((m) => JSON.stringify(line(m)) + "\n").join("") };
  });
}

const idOf = (m) => m.key ?? `${m.source}/${m.epoch}/${m.sequence}`;
const accept = (m) => ({ status: 202, id: idOf(m), replayed: false });
const refuse = (type, status) => ({ status, problem: problemDocument(type, status) });

async function open(t, url, options = {}) {
  const client = new Client(url, quick);
  const sender = await Sender.open({ client, stream: "orders", storage: new MemoryStorage(), ...options });
  t.after(() => sender.close());
  return sender;
}

test("a message is stored before its first try, and removed after its acknowledgement", async (t) => {
  const storage = new MemoryStorage();
  const stored = [];
  const url = await batches(t, { whole: async () => void stored.push((await storage.pending(10, 1e6)).length) });
  const sender = await open(t, url, { storage });
  const { number, key } = await sender.send({ body: "1" });
  assert.equal(number, 1);
  assert.match(key, /^[0-9a-f-]{36}$/);
  await sender.flush();
  assert.deepEqual(stored, [1]);
  assert.equal(await sender.pending(), 0);
});

test("a sender that is opened again sends what is left, under the same keys and in the same order", async (t) => {
  const storage = new MemoryStorage();
  const tries = [];
  let down = true;
  const url = await batches(t, { whole: (messages) => (tries.push(messages.map((m) => m.key)), down ? false : undefined) });
  let failed;
  const trying = new Promise((resolve) => (failed = resolve));
  const first = await open(t, url, { storage, onRetry: failed });
  for (const key of ["a", "b", "c"]) await first.send({ key, group: "g" });
  await trying;
  await first.close();
  await assert.rejects(first.send({}), /closed/);
  down = false;
  tries.length = 0;
  const second = await open(t, url, { storage });
  await second.flush();
  assert.deepEqual(tries, [["a", "b", "c"]]);
  assert.equal(await second.last(), 3);
});

test("a refused message is kept in the list of refused ones, and those after it are sent", async (t) => {
  const told = [];
  const url = await batches(t, { line: (m) => (m.key === "b" ? refuse("key-reuse", 422) : accept(m)) });
  const sender = await open(t, url, { onRefused: (r) => told.push(r.number) });
  for (const key of ["a", "b", "c"]) await sender.send({ key, body: `body of ${key}` });
  await sender.flush();
  const [refused, ...others] = await sender.refused();
  assert.deepEqual([refused.message.key, refused.problem.type, refused.problem.status, others.length], ["b", "key-reuse", 422, 0]);
  assert.equal(Buffer.from(refused.message.body).toString(), "body of b");
  assert.deepEqual(told, [2]);
  await sender.forget(refused.number);
  assert.deepEqual(await sender.refused(), []);
});

test("a line that can be retried is sent again, and the others are not", async (t) => {
  const tries = [];
  const url = await batches(t, {
    line: (m) => (m.key === "b" && tries.length < 3 ? refuse("leased", 409) : accept(m)),
    whole: (messages) => void tries.push(messages.map((m) => m.key).join("")),
  });
  const sender = await open(t, url);
  await Promise.all(["a", "b", "c"].map((key) => sender.send({ key })));
  await sender.flush();
  assert.equal(tries.join(" ").replace(/[^b]/g, "").length, 3, `want b three times: ${tries}`);
  for (const key of ["a", "c"]) assert.equal(tries.join("").split(key).length - 1, 1, `want ${key} once: ${tries}`);
});

for (const [type, status] of [["unauthorized", 401], ["forbidden", 403]]) {
  test(`a line that is answered ${status} is sent again under its number`, async (t) => {
    let denied = 2;
    const sent = [];
    const url = await batches(t, { line: (m) => (sent.push([m.sequence, m.void]), denied-- > 0 ? refuse(type, status) : accept(m)) });
    const sender = await open(t, url, { source: "till" });
    await sender.send({ body: "1" });
    await sender.flush();
    assert.deepEqual(await sender.refused(), []);
    assert.deepEqual(sent, [[1, undefined], [1, undefined], [1, undefined]]);
  });
}

test("a refusal of the whole request refuses no message", async (t) => {
  for (const answer of [problem("forbidden", 403), problem("unknown-stream", 404), { status: 401, headers: {}, body: "log in" }]) {
    let tries = 0;
    const url = await batches(t, { whole: () => (++tries < 3 ? answer : undefined) });
    const errors = [];
    const sender = await open(t, url, { onRetry: (e) => errors.push(e.status) });
    await sender.send({ key: "a" });
    await sender.flush();
    assert.deepEqual(errors, [answer.status, answer.status]);
    assert.deepEqual(await sender.refused(), []);
  }
});

test("a request that is too large for a proxy is sent in parts, in order", async (t) => {
  const order = [];
  const whole = (messages) => (messages.length > 2 ? { status: 413, headers: {}, body: "" } : void order.push(...messages.map((m) => Number(m.key))));
  const url = await batches(t, { whole });
  const sender = await open(t, url);
  await Promise.all(Array.from({ length: 9 }, (_, i) => sender.send({ key: String(i + 1) })));
  await sender.flush();
  assert.deepEqual(order, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("a message that is older than the server remembers keys is not sent", async (t) => {
  const sent = [];
  const url = await batches(t, { line: (m) => (sent.push(m.key), accept(m)) });
  const storage = new MemoryStorage();
  await storage.open({ stream: "orders", source: "", group: "" });
  t.mock.timers.enable({ apis: ["Date"] });
  await storage.add({ key: "old" }, 10);
  t.mock.timers.tick(20);
  const sender = await open(t, url, { storage, maxAge: 10 });
  await sender.flush();
  assert.deepEqual(sent, []);
  assert.equal((await sender.refused())[0].problem.type, "too-old");
});

test("a numbered sender stores its epoch, and gives up the number of a refused message", async (t) => {
  const storage = new MemoryStorage();
  const seen = [];
  const line = (m) => (seen.push([m.epoch, m.sequence, m.void ?? false]), m.sequence === 2 && !m.void ? refuse("too-large", 413) : accept(m));
  let issued = 0;
  const url = await batches(t, { line, epoch: () => ({ status: 200, body: JSON.stringify({ epoch: ++issued }) }) });
  const options = { storage, source: "phone", group: "room" };
  const first = await open(t, url, options);
  for (const body of ["1", "2", "3"]) await first.send({ body });
  await first.flush();
  await first.close();
  const second = await open(t, url, options);
  assert.equal((await second.send({ body: "4" })).number, 4);
  await second.flush();
  assert.equal(issued, 1, "the epoch must be stored");
  const once = [...new Set(seen.map((s) => s.join()))].sort();
  assert.deepEqual(once, ["1,1,false", "1,2,false", "1,2,true", "1,3,false", "1,4,false"]);
  assert.deepEqual((await second.refused()).map((r) => r.number), [2]);
});

test("a numbered sender that is fenced stops, and keeps its messages", async (t) => {
  for (const [type, status] of [["fenced", 409], ["unknown-epoch", 410], ["ended", 409]]) {
    const url = await batches(t, { line: () => refuse(type, status) });
    let stopped;
    const sender = await open(t, url, { source: "phone", onStop: (e) => (stopped = e) });
    await sender.send({ body: "1" });
    await assert.rejects(sender.flush(), (e) => e.type === type);
    await assert.rejects(sender.send({ body: "2" }), (e) => e.type === type);
    assert.equal(stopped?.type, type);
    assert.equal(await sender.pending(), 1);
  }
});

test("of the senders that share a storage one sends, and the next one takes over", async (t) => {
  const storage = new MemoryStorage();
  let at = 0;
  let most = 0;
  const url = await batches(t, {
    whole: async () => {
      most = Math.max(most, ++at);
      await new Promise((resolve) => setTimeout(resolve, 5));
      at--;
    },
  });
  const senders = await Promise.all([open(t, url, { storage }), open(t, url, { storage })]);
  for (let i = 0; i < 10; i++) await senders[i % 2].send({ key: String(i) });
  await senders[1].flush();
  assert.equal(most, 1, "want one request at a time");
  await senders[0].close();
  await senders[1].send({ key: "last" });
  await senders[1].flush();
});

test("too many and too large messages are refused before they are stored", async (t) => {
  const url = await batches(t, { whole: () => false });
  const sender = await open(t, url, { maxPending: 1 });
  await assert.rejects(sender.send({ body: "x".repeat((1 << 20) + 1) }), /body must be at most 1048576 bytes/);
  await assert.rejects(sender.send({ group: "a\n" }), TypeError);
  await sender.send({ key: "a" });
  await assert.rejects(sender.send({ key: "b" }), FullError);
  const numbered = await open(t, url, { source: "phone" });
  await assert.rejects(numbered.send({ body: "x".repeat((256 << 10) + 1) }), /body must be at most 262144 bytes/);
});

test("flush ends with its signal, and names the last failure", async (t) => {
  const url = await batches(t, { whole: () => problem("unavailable", 503) });
  const stop = new AbortController();
  const sender = await open(t, url, { onRetry: () => stop.abort() });
  await sender.send({ key: "a" });
  await assert.rejects(sender.flush({ signal: stop.signal }), (e) => e.cause?.type === "unavailable");
});

test("a storage of another stream is refused", async (t) => {
  const storage = new MemoryStorage();
  await open(t, "http://127.0.0.1:1", { storage });
  await assert.rejects(Sender.open({ client: new Client("http://127.0.0.1:1"), stream: "other", storage }), /belongs to the stream "orders"/);
});

test("bodies of every kind arrive byte for byte, and a given-up number blocks nobody", async (t) => {
  const server = await Server.start(t);
  const client = new Client(server.url, quick);
  const sender = await open(t, server.url, {});
  const bodies = [
    ["application/json", '{"a": [1, "ä"]}'], ["application/json", '{\n"a":1}'], ["application/json", "not JSON"], ["text/plain", "ä\r\n\u2028\ufeff"],
    [undefined, "ä"], [undefined, new Uint8Array([0, 255, 128])], ["application/octet-stream", new Uint8Array(70_000).fill(7)],
  ];
  for (const [contentType, body] of bodies) await sender.send({ group: "g", body, ...(contentType ? { contentType } : {}) });
  await sender.flush();
  const lines = await server.lines("orders.jsonl", bodies.length);
  const arrived = lines.map((l) => (l.body_base64 !== undefined ? Buffer.from(l.body_base64, "base64") : l.body));
  assert.deepEqual(lines.map((l) => l.content_type), bodies.map(([type]) => type));
  for (const [i, [, body]] of bodies.entries()) {
    const got = arrived[i];
    const want = Buffer.from(body).toString();
    const same = Buffer.isBuffer(got) || typeof got === "string" ? Buffer.from(got).toString() === want : JSON.stringify(got) === JSON.stringify(JSON.parse(want));
    assert.ok(same, `body ${i}: want ${want.slice(0, 40)}, have ${String(JSON.stringify(got)).slice(0, 40)}`);
  }
  const numbered = await Sender.open({ client, stream: "numbered", source: "phone", storage: new MemoryStorage() });
  t.after(() => numbered.close());
  for (const headers of [{ "X-N": "1" }, { "X-N": "x".repeat(17 << 10) }, { "X-N": "3" }]) await numbered.send({ headers });
  await numbered.flush();
  assert.deepEqual((await numbered.refused()).map((r) => [r.number, r.problem.type]), [[2, "invalid-message"]]);
  assert.deepEqual((await server.lines("numbered.jsonl", 2)).map((l) => l.headers["X-N"]), ["1", "3"]);
});

test("offline it waits for the event online, and then tries immediately", async (t) => {
  const events = new EventTarget();
  const place = (name, value) => {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true });
    t.after(() => (before ? Object.defineProperty(globalThis, name, before) : delete globalThis[name]));
  };
  place("navigator", { onLine: false });
  place("addEventListener", events.addEventListener.bind(events));
  place("removeEventListener", events.removeEventListener.bind(events));
  let down = true;
  let tries = 0;
  const url = await batches(t, { whole: () => (tries++, down ? false : undefined) });
  const client = new Client(url, { minBackoff: 1, maxBackoff: 600_000 });
  let failed;
  const failing = new Promise((resolve) => (failed = resolve));
  const sender = await Sender.open({ client, stream: "orders", storage: new MemoryStorage(), onRetry: failed });
  t.after(() => sender.close());
  await sender.send({ key: "a" });
  await failing;
  assert.equal(tries, 1);
  down = false;
  events.dispatchEvent(new Event("online"));
  await sender.flush({ signal: AbortSignal.timeout(60_000) });
  assert.equal(tries, 2);
});
