// A handler as a program, which also writes to standard output in three ways.

import { exec } from "../dist/exec.js";
import { handle } from "../dist/index.js";

console.log("begun");

await exec(
  handle(
    async (state, message, attempt) => {
      console.log("handling", message.id);
      process.stdout.write(`{"messages":[]}\n`);
      console.table([message.id]);
      if (message.body === "fail") throw new Error("no database");
      if (message.body === "exit") process.exit(3);
      await new Promise((resolve) => setTimeout(resolve, 20 - message.body));
      attempt.reply(200, "x".repeat(message.body));
      return (state ?? 0) + 1;
    },
    { limit: 1 << 20 },
  ),
);
console.log("ended");
