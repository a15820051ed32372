import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { call } from "./calls.mjs";

/** play gives lines to the program, and returns what it wrote and its exit code. */
async function play(input) {
  const program = spawn(process.execPath, [fileURLToPath(new URL("program.mjs", import.meta.url))]);
  const [out, log] = ["stdout", "stderr"].map((name) => program[name].setEncoding("utf8").toArray());
  program.stdin.on("error", () => {}); // it may exit before it has read everything
  program.stdin.end(input);
  const code = await new Promise((resolve) => program.on("close", resolve));
  return { code, answers: (await out).join("").split("\n").filter(Boolean).map((line) => JSON.parse(line)), log: (await log).join("") };
}

const lines = (...calls) => calls.map((c) => JSON.stringify(c) + "\n").join("");

test("each line is answered by one line, in order, and nothing else is on standard output", async () => {
  const { code, answers, log } = await play(lines(...[2, 1, 20, 3].map((body) => call(body, { body }))));
  assert.equal(code, 0, log);
  assert.deepEqual(answers.map((a) => a.attempt), Array(4).fill(call(1).attempt));
  assert.deepEqual(answers.map((a) => [a.state, a.messages[0].reply.body.length]), [[3, 2], [2, 1], [21, 20], [4, 3]]);
  for (const text of ["begun", "handling m-1", '{"messages":[]}', "┌", "ended"]) assert.ok(log.includes(text), `standard error must have ${text}, has ${log}`);
});

test("an error, and a line that is no call, are answered with the error, and the program goes on", async () => {
  const { code, answers } = await play(lines(call(null, { body: "fail" })) + "{\n\n" + lines({}, call(null, { body: 1 })));
  assert.equal(code, 0);
  assert.deepEqual(Object.keys(answers[0]), ["error"]);
  assert.equal(answers[0].error, "no database");
  assert.deepEqual(answers.map((a) => "error" in a), [true, true, true, true, false]);
});

test("a long line arrives whole, and one over the limit ends the program", async () => {
  const { answers } = await play(lines(call("x".repeat(900_000), { body: 1 })));
  assert.equal(answers[0].state, "x".repeat(900_000) + "1");
  const { code, log } = await play(lines(call("x".repeat(2 << 20), { body: 1 })));
  assert.notEqual(code, 0);
  assert.match(log, /more than 1048576 bytes/);
});

test("a program that exits in the middle leaves no answer", async () => {
  const { code, answers } = await play(lines(call(null, { body: "exit" })));
  assert.deepEqual([code, answers], [3, []]);
});
