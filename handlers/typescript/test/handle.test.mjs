import assert from "node:assert/strict";
import { test } from "node:test";
import { handle, Reject } from "../dist/index.js";
import { call } from "./calls.mjs";

const half = "\ud83d"; // of a surrogate pair

const silent = { onError: () => {} };
const answer = (fn, document) => handle(fn, silent).lambda(document);

test("the state goes from message to message, and the answer has the last one", async () => {
  const sum = (state, { body }) => ({ cents: (state?.cents ?? 0) + body });
  const got = await answer(sum, call({ cents: 1 }, { body: 2 }, { body: 3 }));
  assert.deepEqual(got, { state: { cents: 6 }, messages: [{ id: "m-1" }, { id: "m-2" }] });
});

test("fields that the handler does not know are kept if it spreads the state", async () => {
  const pay = (state, { body }) => ({ ...state, cents: (state?.cents ?? 0) + body });
  const got = await answer(pay, call({ cents: 1, more: { points: 7 } }, { body: 2 }));
  assert.deepEqual(got.state, { cents: 3, more: { points: 7 } });
});

test("a state that is null is one that does not exist yet", async () => {
  const states = [];
  await answer((state) => (states.push(state), null), call(null, {}));
  assert.deepEqual(states, [null]);
});

test("an unchanged state is left out, and null clears the state", async () => {
  assert.equal("state" in (await answer((state) => state, call({ cents: 1 }, {}))), false, "an unchanged state must be left out");
  assert.deepEqual(await answer(() => null, call({ cents: 1 }, {})), { state: null, messages: [{ id: "m-1" }] });
});

test("a handler that returns undefined fails, because its state would be lost", async () => {
  const forgets = (state) => {
    state.cents = 7;
  };
  await assert.rejects(answer(forgets, call({ cents: 1 }, {})), /returned undefined/);
});

test("reply, send, append, timer and cancel are in the answer, in their order", async () => {
  const all = (state, message, attempt) => {
    attempt.reply(201, { ok: true }, { headers: { "X-Shop": "7" } });
    attempt.send("mail", { to: "ann" }, { group: "ann" });
    attempt.timer("reminder", "15m", "pay");
    attempt.cancel("offer");
    attempt.send("bank", new Uint8Array([255]), { after: "7d" });
    attempt.append("seen");
    return state;
  };
  const { messages } = await answer(all, call(null, {}));
  const type = "text/plain; charset=utf-8";
  assert.deepEqual(messages, [
    {
      id: "m-1",
      reply: { status: 201, content_type: "application/json", headers: { "X-Shop": "7" }, body: { ok: true } },
      effects: [
        { to: "mail", group: "ann", content_type: "application/json", body: { to: "ann" } },
        { timer: "reminder", after: "15m", content_type: type, body: "pay" },
        { cancel: "offer" },
        { to: "bank", after: "7d", content_type: "application/octet-stream", body_base64: "/w==" },
      ],
      append: [{ content_type: type, body: "seen" }],
    },
  ]);
});

test("text with the media type of JSON is sent byte for byte, and a value as JSON", async () => {
  const contentType = "application/vnd.shop+json";
  const send = (state, message, attempt) => {
    attempt.send("bank", '{ "a": 1.0 }', { contentType });
    attempt.send("bank", "grüße", { contentType: "text/csv" });
    attempt.send("bank", [1], { contentType: "text/csv" });
    attempt.send("bank");
    return null;
  };
  const [{ effects }] = (await answer(send, call(null, {}))).messages;
  assert.deepEqual(effects, [
    { to: "bank", content_type: contentType, body_base64: btoa('{ "a": 1.0 }') },
    { to: "bank", content_type: "text/csv", body: "grüße" },
    { to: "bank", content_type: "text/csv", body: "[1]" },
    { to: "bank" },
  ]);
});

test("what is sent is the value at the time of the call", async () => {
  const reuse = (state, message, attempt) => {
    const mail = { to: "ann" };
    attempt.send("mail", mail);
    mail.to = "bob";
    return null;
  };
  const [{ effects }] = (await answer(reuse, call(null, {}))).messages;
  assert.deepEqual(effects[0].body, { to: "ann" });
});

test("a message has its fields, and its content in three forms", async () => {
  const seen = [];
  const document = call(
    null,
    { try: 3, headers: { "X-City": "köln" }, source: "till", epoch: 2, sequence: 5, body: { item: 7 } },
    { content_type: "text/plain", body: "grüße", timer: "reminder" },
    { content_type: undefined, body_base64: "AP8=" },
    { content_type: undefined },
  );
  await answer((state, message) => (seen.push(message), null), JSON.parse(JSON.stringify(document)));
  const [first, text, bytes, empty] = seen;
  assert.deepEqual(
    [first.id, first.stream, first.group, first.try, first.headers["X-City"], first.source, first.epoch, first.sequence, first.timer],
    ["m-1", "orders", "customer-7", 3, "köln", "till", 2, 5, undefined],
  );
  assert.equal(first.accepted.toISOString(), "2026-11-27T05:00:00.000Z");
  assert.deepEqual([first.body, first.text(), first.contentType], [{ item: 7 }, '{"item":7}', "application/json"]);
  assert.deepEqual([text.body, text.text(), Buffer.from(text.bytes()).toString(), text.timer], ["grüße", "grüße", "grüße", "reminder"]);
  assert.deepEqual([...bytes.body, ...bytes.bytes()], [0, 255, 0, 255]);
  assert.deepEqual([empty.body, empty.text(), empty.bytes().length, empty.contentType], [undefined, "", 0, undefined]);
});

test("json reads the content whatever its media type is, and refuses what is not JSON", async () => {
  const parse = (state, message) => message.json();
  const form = "application/x-www-form-urlencoded"; // that of curl -d
  assert.deepEqual((await answer(parse, call(null, { body: { item: 7 } }))).state, { item: 7 });
  assert.deepEqual((await answer(parse, call(null, { content_type: form, body: '{"item":7}' }))).state, { item: 7 });
  assert.deepEqual((await answer(parse, call(null, { content_type: undefined, body: "7" }))).state, 7);
  assert.deepEqual((await answer(parse, call(null, { body: "7" }))).state, "7", "a JSON string must not be parsed again");
  for (const m of [{ content_type: form, body: "{" }, { content_type: undefined }, { body_base64: "AP8=" }, { body_base64: btoa("{") }]) {
    assert.deepEqual(await answer(parse, call(null, m)), { messages: [{ id: "m-1", reject: "the body is not JSON" }] });
  }
});

test("a reject is a dead letter, its effects and its state are discarded, and the next message is handled", async () => {
  const handler = async (state, { body }, attempt) => {
    const next = Object.assign(state, { cents: state.cents - body }); // also in place
    attempt.send("mail", body);
    if (body > 5) throw new Reject("no money");
    return next;
  };
  const got = await answer(handler, call({ cents: 10 }, { body: 6 }, { body: 1 }));
  assert.deepEqual(got.messages[0], { id: "m-1", reject: "no money" });
  assert.equal(got.messages[1].id, "m-2");
  assert.deepEqual(got.state, { cents: 9 });
});

test("a reason and an error may quote half of a surrogate pair, and an error may have no text", async () => {
  const refuses = (state, { body }) => {
    throw new Reject(`no item ${body}`);
  };
  assert.deepEqual((await answer(refuses, call(null, { body: half }))).messages, [{ id: "m-1", reject: "no item \ufffd" }]);
  for (const [error, detail] of [
    [new Error(half), "\ufffd"],
    [Object.create(null), "an error that has no text"],
  ]) {
    const fails = () => {
      throw error;
    };
    const request = new Request("http://handler/", { method: "POST", body: JSON.stringify(call(null, {})) });
    const response = await handle(fails, { ...silent, unsigned: true }).fetch(request);
    assert.equal((await response.json()).detail, detail);
  }
});

test("an error at a later message ends the answer before it, with the state of then", async () => {
  const failed = [];
  const handler = handle(
    (state, { body }, attempt) => {
      state.cents += body;
      attempt.send("mail", body);
      if (body === 3) throw new Error("no database");
      return state;
    },
    { onError: (error, id) => failed.push(`${id} ${error.message}`) },
  );
  const got = await handler.lambda(call({ cents: 0 }, { body: 1 }, { body: 2 }, { body: 3 }, { body: 4 }));
  assert.deepEqual(got.messages.map((m) => m.id), ["m-1", "m-2"]);
  assert.deepEqual(got.state, { cents: 3 });
  assert.deepEqual(failed, ["m-3 no database"]);
});

test("an onError that throws leaves the answer and the error as they are", async (t) => {
  t.mock.method(console, "error", () => {});
  const handler = handle(
    (state, { body }) => {
      if (body === 3) throw new Error("no database");
      return body;
    },
    {
      onError: () => {
        throw new Error("no log");
      },
    },
  );
  assert.deepEqual(await handler.lambda(call(0, { body: 1 }, { body: 3 })), { state: 1, messages: [{ id: "m-1" }] });
  await assert.rejects(handler.lambda(call(0, { body: 3 })), /no database/);
});

test("an error at the first message fails the call, asynchronous or not", async () => {
  const fails = () => {
    throw new Error("no database");
  };
  await assert.rejects(answer(fails, call(null, {}, {})), /no database/);
  await assert.rejects(answer(async () => fails(), call(null, {}, {})), /no database/);
});

test("values without JSON, wrong names, spans and statuses are errors of the message", async () => {
  const mistakes = {
    "the state must be a value that JSON has": () => () => {},
    "the state must be a value that JSON has, and has the number NaN": (state) => (state ?? 0) + undefined,
    "has the number Infinity": () => ({ cents: [1 / 0] }),
    "the state must be a value that JSON has, and has a Map": () => ({ cents: new Map([["ann", 1]]) }),
    "and has a Set": (_, __, a) => (a.send("mail", [new Set([1])]), null),
    "the body must be a value that JSON has": (_, __, a) => (a.reply(200, Symbol("x")), null),
    BigInt: (_, __, a) => (a.append(1n), null),
    "must be a Uint8Array": (_, __, a) => (a.append(new Uint16Array(1)), null),
    "status of a reply": (_, __, a) => (a.reply(99), null),
    "name of a destination": (_, __, a) => (a.send(""), null),
    "name of a group": (_, __, a) => (a.send("mail", 1, { group: "" }), null),
    "the body must be Unicode": (_, __, a) => (a.send("mail", half), null),
    "body must be Unicode": (_, __, a) => (a.reply(200, half, { contentType: "application/json" }), null),
    "name of a group must be Unicode": (_, __, a) => (a.send("mail", 1, { group: half }), null),
    "name of a timer": (_, __, a) => (a.timer(undefined, "1s"), null),
    "time span": (_, __, a) => (a.timer("t", "soon"), null),
    'not "1.5d"': (_, __, a) => (a.timer("t", "1.5d"), null), // once takes whole days, before all other units
    'not "1h2d"': (_, __, a) => (a.timer("t", "1h2d"), null),
    'not ""': (_, __, a) => (a.timer("t", ""), null),
    'not "-1s"': (_, __, a) => (a.send("mail", 1, { after: "-1s" }), null),
  };
  for (const [text, fn] of Object.entries(mistakes)) {
    await assert.rejects(answer(fn, call(null, {})), (e) => e.message.includes(text) || assert.fail(`want ${text}, got ${e.message}`));
  }
});

test("an attempt that has ended takes nothing more, so a promise that is not awaited fails", async () => {
  let late;
  await answer((state, message, attempt) => ((late = attempt), null), call(null, {}));
  assert.throws(() => late.send("mail", 1), /await every promise/);
  await assert.rejects(answer((state, message, attempt) => Promise.reject(((late = attempt), new Error("no"))), call(null, {})), /no/);
  assert.throws(() => late.reply(200), /await every promise/);
});

test("a document that is no call is an error that names the mistake", async () => {
  for (const [document, text] of [
    [null, /the call must be a JSON object/],
    [[], /the call must be a JSON object/],
    [{ group: "g", messages: [{ id: "a" }] }, /stream must be a string/],
    [{ stream: "s", messages: [{ id: "a" }] }, /group must be a string/],
    [{ stream: "s", group: "g" }, /messages must be a list/],
    [{ stream: "s", group: "g", messages: [] }, /messages must be a list/],
    [{ stream: "s", group: "g", messages: ["a"] }, /a message must be a JSON object/],
    [{ stream: "s", group: "g", messages: [{}] }, /id must be a string/],
  ]) {
    await assert.rejects(answer(() => null, document), text);
  }
});
