import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { handle } from "../dist/index.js";
import { listener } from "../dist/node.js";
import { call, otherSecret, request, secret, sign, signed } from "./calls.mjs";

const echo = (state, message, attempt) => (attempt.reply(200, message.body), state);
const silent = { secret, onError: () => {} };
const post = (options, handler = handle(echo, silent)) => handler.fetch(request(call(null, { body: 1 }), options));

async function refused(response, status, text) {
  assert.equal(response.status, status, `want ${status}, got ${response.status}`);
  assert.equal(response.headers.get("Content-Type"), "application/problem+json");
  const problem = await response.json();
  assert.equal(problem.status, status);
  assert.match(problem.detail, text);
}

test("a signed call gets the answer as JSON", async () => {
  const response = await post();
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("Content-Type"), "application/json");
  assert.deepEqual(await response.json(), { messages: [{ id: "m-1", reply: { status: 200, content_type: "application/json", body: 1 } }] });
});

test("the example of the specification of Standard Webhooks verifies", async () => {
  const body = '{"test": 2432232314}';
  const headers = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const options = { secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", tolerance: Infinity };
  const response = await handle(echo, options).fetch(new Request("https://handler.example", { method: "POST", body, headers }));
  await refused(response, 400, /stream must be a string/); // so the signature was right
});

test("a wrong, missing or altered signature, id or timestamp is refused with 401", async () => {
  const body = JSON.stringify(call(null, { body: 1 }));
  const good = signed(body);
  const at = good["webhook-timestamp"];
  for (const change of [
    { "webhook-signature": sign("attempt-1", at, body, otherSecret) },
    { "webhook-signature": sign("attempt-2", at, body) },
    { "webhook-signature": sign("attempt-1", at, body + " ") },
    { "webhook-signature": good["webhook-signature"].replace("v1,", "v2,") },
    { "webhook-signature": good["webhook-signature"].slice(0, -8) },
    { "webhook-signature": "v1,*" },
    { "webhook-signature": "v1," },
    { "webhook-signature": "" },
    { "webhook-id": "attempt-2" },
    { "webhook-id": "" },
    { "webhook-timestamp": String(Number(at) + 1) },
    { "webhook-timestamp": "" },
    { "webhook-timestamp": "NaN" },
  ]) {
    const headers = { ...good, ...change };
    const response = await handle(echo, silent).fetch(new Request("https://handler.example", { method: "POST", body, headers }));
    await refused(response, 401, /webhook-/);
  }
});

test("a timestamp more than five minutes old or ahead is refused, and the tolerance can be set", async () => {
  const now = Date.now() / 1000;
  for (const at of [now - 310, now + 310]) await refused(await post({ at }), 401, /within 300 s/);
  assert.equal((await post({ at: now - 290 })).status, 200);
  assert.equal((await post({ at: now - 310 }, handle(echo, { secret, tolerance: 400 }))).status, 200);
});

test("one of several secrets is enough, and so is one of several signatures", async () => {
  for (const several of [`${otherSecret} ${secret}`, [otherSecret, secret]]) {
    assert.equal((await post({}, handle(echo, { secret: several }))).status, 200);
  }
  const document = JSON.stringify(call(null, { body: 1 }));
  const headers = signed(document);
  headers["webhook-signature"] = `v2,AAAA ${signed(document, { key: otherSecret })["webhook-signature"]} ${headers["webhook-signature"]}`;
  const response = await handle(echo, { secret }).fetch(new Request("https://handler.example", { method: "POST", body: document, headers }));
  assert.equal(response.status, 200);
});

test("a secret may come from the environment that fetch gets, and may change", async () => {
  const handler = handle(echo, { secret: (env) => env.SECRET });
  const tries = [secret, otherSecret, secret].map((SECRET) => ({ SECRET }));
  const statuses = [];
  for (const env of tries) statuses.push((await handler.fetch(request(call(null, { body: 1 })), env)).status);
  assert.deepEqual(statuses, [200, 401, 200]);
});

test("without a secret every call fails, unless the handler says that calls are unsigned", async () => {
  for (const none of [undefined, "", [], () => undefined]) {
    await refused(await post({}, handle(echo, { secret: none })), 500, /no secret/);
  }
  const plain = new Request("https://handler.example", { method: "POST", body: JSON.stringify(call(null, { body: 1 })) });
  assert.equal((await handle(echo, { unsigned: true }).fetch(plain)).status, 200);
});

test("an invalid secret fails the call, and the problem has no part of it", async () => {
  for (const bad of ["whsec_", "geheim*", " "]) {
    const response = await post({}, handle(echo, { secret: bad }));
    const { detail } = await response.json();
    assert.equal(response.status, 500);
    assert.match(detail, /secret must/);
    assert.doesNotMatch(detail, /geheim/);
  }
});

test("a failing function is a problem with its text", async () => {
  const fails = () => {
    throw new Error("no database");
  };
  await refused(await post({}, handle(fails, silent)), 500, /^no database$/);
});

test("what is no call gets 400, and what is no POST 405", async () => {
  for (const body of ["{", "[]", "", '{"stream":"s"}', "\ufeff{}"]) await refused(await handle(echo, silent).fetch(request(body)), 400, /no call/);
  const invalid = Buffer.from(JSON.stringify(call(null, { body: "\x01" })).replace("\\u0001", "\x01"));
  invalid[invalid.indexOf(1)] = 0xff; // not UTF-8
  const bytes = new Request("https://handler.example", { method: "POST", body: invalid, headers: signed(invalid) });
  await refused(await handle(echo, silent).fetch(bytes), 400, /no call/);
  const get = await handle(echo, silent).fetch(new Request("https://handler.example"));
  assert.equal(get.headers.get("Allow"), "POST");
  await refused(get, 405, /POST/);
});

test("a request over the limit is refused, whether or not it says its length", async () => {
  const small = handle(echo, { ...silent, limit: 300 });
  const body = " ".repeat(301);
  await refused(await small.fetch(request(body, { init: { headers: { ...signed(body), "Content-Length": "301" } } })), 413, /300 bytes/);
  let pulled = 0;
  const endless = new ReadableStream({ pull: (c) => (pulled++, c.enqueue(new Uint8Array(100))) });
  const init = { body: endless, duplex: "half" };
  await refused(await small.fetch(request(body, { init })), 413, /300 bytes/);
  assert.ok(pulled < 20, `${pulled} parts were read`);
});

async function serve(t, handler, before = (next) => next) {
  const server = createServer(before(listener(handler)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}/`;
}

test("the listener for node:http answers as fetch does", async (t) => {
  const url = await serve(t, handle(echo, { ...silent, limit: 1 << 20 }));
  const body = JSON.stringify(call(null, { body: "x".repeat(200_000) }));
  const response = await fetch(url, { method: "POST", body, headers: signed(body) });
  assert.equal(response.status, 200);
  assert.equal((await response.json()).messages[0].reply.body.length, 200_000);
  await refused(await fetch(url, { method: "POST", body }), 401, /webhook-id/);
  await refused(await fetch(url), 405, /POST/);
  const large = "x".repeat(2 << 20);
  const tooLarge = await fetch(url, { method: "POST", body: large, headers: signed(large) }).catch(() => undefined);
  if (tooLarge) await refused(tooLarge, 413, /bytes/); // otherwise the connection was closed while the client still wrote
  assert.equal((await fetch(url, { method: "POST", body, headers: signed(body) })).status, 200, "the next call must be answered");
});

test("the listener says that a body parser has read the body", async (t) => {
  const parser = (next) => async (request, response) => {
    for await (const _ of request);
    await next(request, response);
  };
  const url = await serve(t, handle(echo, silent), parser);
  const body = JSON.stringify(call(null, { body: 1 }));
  await refused(await fetch(url, { method: "POST", body, headers: signed(body) }), 500, /before body parsers/);
});
