import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Problem, UnacknowledgedError } from "../dist/index.js";
import { fake, problem, Server } from "./server.mjs";

const quick = { minBackoff: 1, maxBackoff: 5 };
const isProblem = (type) => (e) => e instanceof Problem && e.type === type;

test("against the server", async (t) => {
  const server = await Server.start(t);
  const client = new Client(server.url);

  await t.test("the same key is processed once, and its repetition is told", async () => {
    const message = { stream: "orders", key: "order-1", group: "customer-7", contentType: "application/json", body: '{"item":7}' };
    const first = await client.send(message, { wait: 10 });
    const second = await client.send(message, { wait: 10 });
    assert.deepEqual([first.id, first.group, first.status, first.replayed], ["order-1", "customer-7", "done", false]);
    assert.equal(second.replayed, true, "the second answer must be a replay");
    const lines = await server.lines("orders.jsonl", 1);
    assert.equal(lines.length, 1, `want one line, have ${JSON.stringify(lines)}`);
    assert.deepEqual(lines[0].body, { item: 7 });
  });

  await t.test("a key with other content is refused, and the problem is not retryable", async () => {
    const reuse = client.send({ stream: "orders", key: "order-1", group: "customer-7", body: "other" });
    await assert.rejects(reuse, (e) => isProblem("key-reuse")(e) && e.status === 422 && !e.retryable && !e.ambiguous && e.key === "order-1");
  });

  await t.test("keys, groups, headers and bodies arrive as they are", async () => {
    const odd = { stream: "orders", key: 'a "b" \\ c', group: "köln/東京", headers: { "X-City": "köln" }, contentType: "text/plain", body: "grüße\n" };
    const receipt = await client.send(odd, { wait: 10 });
    assert.deepEqual([receipt.id, receipt.group], ['a "b" \\ c', "köln/東京"]);
    const status = await client.status("orders", odd.key);
    assert.deepEqual([status.id, status.group, status.status], [odd.key, odd.group, "done"]);
    const line = (await server.lines("orders.jsonl", 2))[1];
    assert.equal(line.group, odd.group);
    assert.equal(line.body, "grüße\n");
    assert.equal(line.headers["X-City"], "köln");
  });

  await t.test("a delayed message is processed at its time, and not before", async () => {
    const before = (await server.lines("orders.jsonl", 2)).length;
    const due = new Date(Date.now() + 1000);
    const receipt = await client.send({ stream: "orders", key: "later", contentType: "text/plain", body: "later", notBefore: due });
    assert.deepEqual([receipt.status, receipt.notBefore], ["accepted", due]);
    await assert.rejects(client.send({ stream: "orders", key: "later", notBefore: due }, { wait: 1 }), TypeError);
    const lines = await server.lines("orders.jsonl", before + 1);
    assert.equal(lines.at(-1).body, "later", "the line must be that of the delayed message");
    assert.ok(Date.now() >= due.getTime(), "the message must not be processed before it is due");
  });

  await t.test("a one-time request is stored, run and forgotten", async () => {
    const request = { stream: "orders", id: "pay-2", contentType: "application/json", body: '{"amount":100}' };
    assert.equal(await client.putRequest(request), true, "the first put must be new");
    assert.equal(await client.putRequest(request), false, "the second put must not be new");
    await assert.rejects(client.putRequest({ ...request, body: "1" }), isProblem("key-reuse"));
    assert.equal((await client.runRequest("orders", "pay-2")).status, 200);
    assert.equal((await client.runRequest("orders", "pay-2")).replayed, true, "the second run must be a replay");
    await client.deleteRequest("orders", "pay-2");
    await client.deleteRequest("orders", "pay-2");
    await assert.rejects(client.runRequest("orders", "pay-2"), isProblem("deleted"));
  });

  await t.test("the log of numbered messages is read from an offset, and followed", async () => {
    const epoch = await client.issueEpoch("lobby", "ann", { group: "room" });
    const say = (sequence, body) => client.send({ stream: "lobby", source: "ann", group: "room", epoch, sequence, contentType: "application/json", body });
    await say(1, '"one"');
    await say(2, '"two"');
    const seen = [];
    let offset;
    for await (const entry of client.tail("lobby", "room")) {
      seen.push([entry.number, entry.source, entry.sequence, entry.body]);
      if (entry.number === 1) offset = entry.offset;
      if (entry.number === 2) await say(3, '{"n":3}');
      if (entry.number === 3) break;
    }
    assert.deepEqual(seen, [[1, "ann", 1, "one"], [2, "ann", 2, "two"], [3, "ann", 3, { n: 3 }]]);
    const rest = [];
    const tail = client.tail("lobby", "room", { after: offset, follow: false });
    for await (const entry of tail) rest.push(entry.number);
    assert.deepEqual(rest, [2, 3]);
    assert.ok(tail.offset > offset, `want an offset after ${offset}, have ${tail.offset}`);
    await assert.rejects(client.issueEpoch("orders", "ann"), isProblem("invalid-message"));
    assert.ok((await client.issueEpoch("lobby", "ann", { group: "room" })) > epoch, "a second epoch must be higher");
    await assert.rejects(say(4, '"late"'), isProblem("fenced"));
  });

  await t.test("a tail ends with its signal", async () => {
    const stop = new AbortController();
    const reading = (async () => {
      for await (const _ of client.tail("lobby", "nobody", { signal: stop.signal })) assert.fail("the log must be empty");
    })();
    stop.abort();
    await assert.rejects(reading);
  });
});

test("each try has the same key, and waits as Retry-After says", async (t) => {
  const keys = [];
  const waits = [];
  const url = await fake(t, (request) => {
    keys.push(request.headers["idempotency-key"]);
    if (keys.length === 1) return undefined; // no answer
    if (keys.length === 2) return problem("unavailable", 503, { "Retry-After": "1" });
    const id = JSON.parse(request.headers["idempotency-key"]);
    return { status: 202, body: JSON.stringify({ id, stream: "orders", group: id, status: "accepted" }) };
  });
  const client = new Client(url, { ...quick, onRetry: (error, wait) => waits.push([error.name, wait]) });
  const receipt = await client.send({ stream: "orders", body: "1" });
  assert.equal(new Set(keys).size, 1, `want one key, have ${keys}`);
  assert.match(receipt.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(waits.length, 2);
  assert.ok(waits[1][1] >= 1000 && waits[1][1] <= 1100, `want a wait of a second, have ${waits[1][1]} ms`);
});

test("an answer that is not the server's is a problem without a type, and the message may be accepted", async (t) => {
  const answers = [
    { status: 403, headers: { "Content-Type": "text/html" }, body: "log in" },
    { status: 200, headers: { "Content-Type": "application/json" }, body: '{"status":"done"}' },
    { status: 302, headers: { Location: "https://login.example" }, body: "" },
    problem("x", 400, { "Content-Type": "application/json" }),
  ];
  const url = await fake(t, () => answers[0]);
  for (; answers.length > 0; answers.shift()) {
    const sent = new Client(url).send({ stream: "orders", key: "k" });
    await assert.rejects(sent, (e) => e instanceof Problem && e.type === "" && e.ambiguous && !e.retryable && e.key === "k", JSON.stringify(answers[0]));
  }
});

test("a refusal after a try without an answer is ambiguous", async (t) => {
  let tries = 0;
  const url = await fake(t, () => (++tries === 1 ? undefined : problem("key-reuse", 422)));
  const sent = new Client(url, quick).send({ stream: "orders", key: "k" });
  await assert.rejects(sent, (e) => isProblem("key-reuse")(e) && e.ambiguous);
});

test("a call without an acknowledgement ends with its signal or its time, and names the key", async (t) => {
  const url = await fake(t, () => problem("unavailable", 503));
  const stop = new AbortController();
  const client = new Client(url, { ...quick, onRetry: () => stop.abort(new Error("enough")) });
  const isOpen = (text) => (e) => e instanceof UnacknowledgedError && e.key === "k" && e.retryable && e.last?.type === "unavailable" && e.message.includes(text);
  await assert.rejects(client.send({ stream: "orders", key: "k" }, { signal: stop.signal }), isOpen("enough"));
  t.mock.timers.enable({ apis: ["Date"] });
  const timed = new Client(url, { ...quick, maxElapsed: 60_000, onRetry: () => t.mock.timers.tick(60_000) });
  await assert.rejects(timed.send({ stream: "orders", key: "k" }), isOpen("maxElapsed"));
});

test("maxElapsed ends a try that gets no answer", { timeout: 20_000 }, async (t) => {
  const url = await fake(t, () => new Promise(() => {})); // each try would take 30 s
  const call = new Client(url, { ...quick, maxElapsed: 50 }).send({ stream: "orders", key: "k" });
  await assert.rejects(call, (e) => e instanceof UnacknowledgedError && e.key === "k");
});

test("a try without an answer in time is repeated", async (t) => {
  let tries = 0;
  const accepted = { status: 202, body: JSON.stringify({ id: "k", stream: "orders", group: "k", status: "accepted" }) };
  const url = await fake(t, () => (++tries === 1 ? new Promise(() => {}) : accepted));
  await new Client(url, { ...quick, tryTimeout: 500 }).send({ stream: "orders", key: "k" });
  assert.ok(tries >= 2, `want a second try, have ${tries}`);
});

test("headers of the client go with every try, and may be made anew", async (t) => {
  const seen = [];
  const url = await fake(t, (request) => {
    seen.push(request.headers.authorization);
    return seen.length === 1 ? problem("unavailable", 503) : { status: 204 };
  });
  let n = 0;
  await new Client(url, { ...quick, headers: async () => ({ Authorization: `token ${++n}` }) }).deleteRequest("orders", "a");
  assert.deepEqual(seen, ["token 1", "token 2"]);
});

test("invalid fields are found before anything is sent", async () => {
  const client = new Client("http://127.0.0.1:1");
  for (const [message, text] of [
    [{ stream: "" }, "stream"],
    [{ stream: "s", key: "ä" }, "key"],
    [{ stream: "s", key: "x".repeat(257) }, "key"],
    [{ stream: "s", group: " a" }, "group"],
    [{ stream: "s", group: "a\nb" }, "group"],
    [{ stream: "s", sequence: 1 }, "source"],
    [{ stream: "s", source: "a" }, "sequence"],
    [{ stream: "s", source: "a", sequence: 1.5 }, "sequence"],
    [{ stream: "s", parents: [0] }, "parents"],
    [{ stream: "s", notBefore: new Date(NaN) }, "notBefore"],
    [{ stream: "s", headers: { "Once-Group": "a" } }, "once-"],
    [{ stream: "s", headers: { "X Y": "a" } }, "valid"],
  ]) {
    await assert.rejects(client.send(message), (e) => e instanceof TypeError && e.message.includes(text), JSON.stringify(message));
  }
  assert.throws(() => new Client("ftp://a"), TypeError);
  assert.throws(() => new Client("http://a?b=c"), TypeError);
});
