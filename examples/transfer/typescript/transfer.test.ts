import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer } from "@effectively-once/handler";
import { transfer } from "./transfer.ts";

/** play handles messages of alice's account, each a body with an id. */
function play(state: unknown, ...messages: [string, unknown][]): Promise<Answer> {
  const of = ([id, body]: [string, unknown]) => ({ id, content_type: "application/json", body });
  return transfer.lambda({ stream: "transfers", group: "alice", state, messages: messages.map(of) });
}

test("money is put in and moved, and the bank and the customer are told", async () => {
  const got = await play(null, ["t-0", { To: "alice", Cents: 100 }], ["t-1", { From: "alice", To: "bob", Cents: 70 }]);
  const json = (body: object) => ({ content_type: "application/json", body });
  assert.deepEqual(got, {
    state: { Cents: 30 },
    messages: [
      { id: "t-0", reply: { status: 201, ...json({ ID: "t-0", Balance: 100 }) } },
      {
        id: "t-1",
        reply: { status: 201, ...json({ ID: "t-1", Balance: 30 }) },
        effects: [
          { to: "bank", group: "bob", ...json({ From: "alice", To: "bob", Cents: 70 }) },
          { to: "mail", ...json({ ID: "t-1", Balance: 30 }) },
        ],
      },
    ],
  });
});

test("a transfer without cover is a decision", async () => {
  const { messages } = await play({ Cents: 5 }, ["t-1", { From: "alice", To: "bob", Cents: 70 }]);
  assert.deepEqual(messages, [{ id: "t-1", reply: { status: 409, content_type: "application/json", body: { Reason: "not enough money" } } }]);
});

test("a message that is no transfer is rejected", async () => {
  for (const body of [undefined, null, "{", [], { Cents: 0 }, { From: "alice", Cents: -5 }, { From: 7, Cents: 5 }, { From: "alice", To: "bob", Cents: 0.5 }]) {
    assert.deepEqual(await play(null, ["t-1", body]), { messages: [{ id: "t-1", reject: "not a transfer" }] }, JSON.stringify(body));
  }
  const others = await play(null, ["t-1", { From: "bob", To: "carol", Cents: 5 }]);
  assert.deepEqual(others, { messages: [{ id: "t-1", reject: "not a transfer of this account" }] });
});
