// A program for Node.js, compiled without the types of browsers.
import { createServer } from "node:http";
import { type Answer, handle } from "@effectively-once/handler";
import { exec } from "@effectively-once/handler/exec";
import { listener } from "@effectively-once/handler/node";

const count = handle<number>((state) => (state ?? 0) + 1, { secret: process.env["ONCE_SECRET"] });

export const handler = count.lambda; // of AWS Lambda
export const POST = (request: Request): Promise<Response> => count.fetch(request);

const answer: Answer = await count.lambda({ stream: "orders", group: "ann", state: 1, messages: [{ id: "order-1" }] });
if (answer.state !== 2) throw new Error(`the state is ${answer.state}, not 2`);
if (process.argv.includes("--serve")) createServer(listener(count)).listen(8080);
else await exec(count);
