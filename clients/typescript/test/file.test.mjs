import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { FileStorage } from "../dist/file.js";
import { temporary } from "./server.mjs";

const owner = { stream: "orders", source: "", group: "" };

async function opened(folder) {
  const storage = new FileStorage(folder);
  await storage.open(owner);
  return storage;
}

const keys = async (storage) => (await storage.pending(1000, 1e9)).map((p) => p.message.key);

test("what is stored, settled, refused and forgotten is there after the storage is opened again", async (t) => {
  const folder = temporary(t);
  let storage = await opened(folder);
  const body = new Uint8Array([0, 255]);
  const numbers = await Promise.all(["a", "b", "c", "d"].map((key) => storage.add({ key, group: "ä", headers: { "X-A": "b" }, body }, 10)));
  assert.deepEqual(numbers, [1, 2, 3, 4]);
  const [, b, , d] = await storage.pending(10, 1e6);
  const problem = { type: "too-large", title: "", status: 413 };
  await storage.settle({ acknowledged: [1], refused: [{ ...b, problem }], keepNumbers: false });
  await storage.settle({ acknowledged: [], refused: [{ ...d, problem }], keepNumbers: true });
  await storage.setEpoch(7);
  for (let i = 0; i < 2; i++) {
    await storage.close();
    storage = await opened(folder);
    const [c, again] = await storage.pending(10, 1e6);
    assert.deepEqual(c.message, { key: "c", group: "ä", headers: { "X-A": "b" }, body });
    assert.deepEqual([again.number, again.void], [4, true]);
    assert.deepEqual((await storage.refused()).map((r) => [r.number, r.message.key, r.problem.type]), [[2, "b", "too-large"], [4, "d", "too-large"]]);
    assert.deepEqual(await storage.state(), { last: 4, pending: 2, epoch: 7 });
  }
  await storage.forget(2);
  await storage.settle({ acknowledged: [3, 4], refused: [], keepNumbers: false });
  await storage.close();
  storage = await opened(folder);
  assert.deepEqual([await keys(storage), (await storage.refused()).length], [[], 1]);
  assert.equal(await storage.add({}, 10), 5, "numbers must not be used again");
  await storage.close();
});

test("a line that a crash left unfinished is removed, and other damage is an error", async (t) => {
  const folder = temporary(t);
  const path = join(folder, "messages");
  const storage = await opened(folder);
  for (const key of ["a", "b"]) await storage.add({ key }, 10);
  await storage.close();
  const whole = readFileSync(path);
  for (const rest of ["0", '00000000 {"synced":0,"pending"', "00000000 {}\n", "\0".repeat(100), "\0\0\n\0"]) {
    writeFileSync(path, whole);
    appendFileSync(path, rest);
    const again = await opened(folder);
    assert.deepEqual(await keys(again), ["a", "b"], `after ${JSON.stringify(rest)}`);
    assert.equal(statSync(path).size, whole.length, "what follows must be cut off");
    assert.equal(await again.add({ key: "c" }, 10), 3);
    await again.close();
    const third = await opened(folder);
    assert.deepEqual(await keys(third), ["a", "b", "c"]);
    await third.close();
  }
  for (const at of [3, whole.indexOf('"a"') + 1]) {
    const damaged = Buffer.from(whole);
    damaged[at] ^= 1;
    writeFileSync(path, damaged);
    await assert.rejects(opened(folder), /is damaged in line/, `a bit changed at ${at}`);
  }
});

test("a file whose messages are mostly gone is replaced by a smaller one", async (t) => {
  const folder = temporary(t);
  let storage = await opened(folder);
  const body = new Uint8Array(100_000);
  for (let i = 0; i < 30; i++) {
    const number = await storage.add({ key: String(i), body }, 10);
    if (i !== 5) await storage.settle({ acknowledged: [number], refused: [], keepNumbers: false });
  }
  assert.ok(statSync(join(folder, "messages")).size < 2e6, "the file must be smaller than what was written");
  await storage.close();
  storage = await opened(folder);
  assert.deepEqual(await keys(storage), ["5"]);
  assert.equal((await storage.state()).last, 30);
  await storage.close();
});

test("a message that is forgotten while the file is replaced stays forgotten", async (t) => {
  const folder = temporary(t);
  let storage = await opened(folder);
  await storage.add({ key: "refused" }, 1);
  const [first] = await storage.pending(1, 1);
  await storage.settle({ acknowledged: [], refused: [{ ...first, problem: { type: "too-large", title: "", status: 413 } }], keepNumbers: false });
  const numbers = [];
  for (let i = 0; i < 15; i++) numbers.push(await storage.add({ body: new Uint8Array(100_000) }, 20));
  // While the first line is written, the other two wait. They are durable together.
  await Promise.all([
    storage.setEpoch(7),
    storage.settle({ acknowledged: numbers, refused: [], keepNumbers: false }),
    storage.forget(first.number),
  ]);
  assert.ok(statSync(join(folder, "messages")).size < 1e6, "the file must be replaced");
  await storage.close();
  storage = await opened(folder);
  assert.deepEqual([await keys(storage), await storage.refused()], [[], []]);
  await storage.close();
});

test("a storage of another sender or version is refused", async (t) => {
  const folder = temporary(t);
  await (await opened(folder)).close();
  await assert.rejects(new FileStorage(folder).open({ stream: "orders", source: "a", group: "a" }), /belongs to the stream "orders", with keys/);
  await (await opened(folder)).close();
});

test("one process has the folder at a time, and one that was killed loses it", async (t) => {
  const folder = temporary(t);
  const holder = fork(new URL("holder.mjs", import.meta.url), [folder]);
  await once(holder, "message");
  await assert.rejects(opened(folder), new RegExp(`the process ${holder.pid} has the folder open`));
  holder.kill("SIGKILL");
  await once(holder, "exit");
  const many = await Promise.allSettled(Array.from({ length: 20 }, () => opened(folder)));
  const got = many.filter((m) => m.status === "fulfilled");
  assert.equal(got.length, 1, "want exactly one of those who found a dead holder");
  await got[0].value.close();
  await (await opened(folder)).close();
  const locks = readdirSync(folder).filter((name) => name.startsWith("lock"));
  assert.equal(locks.length, 1, `want one file, have ${locks}`);
});
