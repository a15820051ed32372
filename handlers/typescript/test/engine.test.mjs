import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { handle } from "../dist/index.js";
import { listener } from "../dist/node.js";
import { call, otherSecret, secret } from "./calls.mjs";
import { serve, Server, until } from "./server.mjs";

const configuration = (handler) => `
streams:
  shop: {destinations: [mail], retry: {first: 50ms, max: 200ms}, log: {retain: 1h}}
destinations:
  mail: {file: out/mail.jsonl}
handlers:
  shop: ${handler}
`;

const program = `{exec: "node '${fileURLToPath(new URL("shopexec.mjs", import.meta.url))}'"}`;

process.env.SHOP_SECRET = secret;
const { shop } = await import("./shop.mjs");

/** start starts the server with the shop as a program, or behind a URL. */
async function start(t, way) {
  if (way === "exec") return Server.start(t, configuration(program));
  const url = await serve(t, listener(shop));
  return Server.start(t, configuration(`{url: "${url}", secret: "env:SHOP_SECRET"}`));
}

const deadLetters = async (server) => JSON.parse((await promisify(execFile)(process.env.ONCE, ["show", "--dead-letters", "--json"], { cwd: server.folder })).stdout);

for (const way of ["exec", "url"]) {
  test(`with the server, ${way}`, async (t) => {
    const server = await start(t, way);

    await t.test("a message takes effect once, and its duplicate gets the same reply", async () => {
      for (let i = 0; i < 3; i++) assert.deepEqual(await server.send("shop", "ann", "a-1", { cents: 30 }), [201, '{"left":70}']);
      assert.deepEqual(await server.send("shop", "ann", "a-2", { cents: 20 }), [201, '{"left":50}']);
      const lines = await server.lines("mail.jsonl", 2);
      assert.deepEqual(lines.map((l) => [l.group, l.number, l.body]), [["ann", 1, { id: "a-1", left: 70 }], ["ann", 2, { id: "a-2", left: 50 }]]);
    });

    await t.test("a message that fails is retried, in order, and those beside it are not lost", async () => {
      const sent = [];
      for (let i = 1; i <= 12; i++) sent.push(server.send("shop", "bob", `b-${i}`, { cents: 1, fails: i % 3 === 0 }));
      for (const [status, text] of await Promise.all(sent)) assert.equal(status, 201, text);
      const lines = (await server.lines("mail.jsonl", 14)).filter((l) => l.group === "bob");
      assert.equal(new Set(lines.map((l) => l.body.id)).size, 12);
      assert.deepEqual(lines.map((l) => l.body.left), Array.from({ length: 12 }, (_, i) => 99 - i));
    });

    await t.test("a rejected message is a dead letter with the reason, and changes nothing", async () => {
      await server.send("shop", "ann", "a-3", { cents: 50, reject: true });
      const letters = await until("a dead letter", async () => {
        const found = await deadLetters(server);
        return JSON.stringify(found).includes("not a payment") && found;
      });
      assert.ok(JSON.stringify(letters).includes("a-3"), `want a-3, have ${JSON.stringify(letters)}`);
      assert.deepEqual(await server.send("shop", "ann", "a-4", { cents: 50 }), [201, '{"left":0}']);
    });

    await t.test("an entry is in the log of the group", async () => {
      assert.equal((await server.send("shop", "eve", "e-1", { note: { said: "grüße" } }))[0], 201);
      const page = await (await fetch(`${server.url}/v1/streams/shop/groups/eve/log`)).text();
      assert.match(page, /grüße/);
    });
  });
}

test("with the server, a call that is signed with another secret fails until the secret is right", async (t) => {
  let used = otherSecret;
  const refused = [];
  const count = handle((state) => (state ?? 0) + 1, { secret: () => used });
  const url = await serve(t, async (request, response) => {
    response.on("finish", () => response.statusCode === 401 && refused.push(used));
    await listener(count)(request, response);
  });
  const server = await Server.start(t, configuration(`{url: "${url}", secret: "env:SHOP_SECRET"}`));
  const sent = server.send("shop", "ann", "a-1", {}, { wait: 0 });
  await until("a call is refused", () => refused.length > 0);
  used = secret;
  assert.ok([200, 202].includes((await sent)[0]));
  await until("the message is processed", async () => (await server.send("shop", "ann", "a-1", {}))[0] === 200);
  assert.deepEqual(await count.lambda(call(1, {})), { state: 2, messages: [{ id: "m-1" }] });
});
