import type { Handler } from "./handle.js";
import { textOf } from "./run.js";

// Standard output carries answers only. From this import on, everything else that the program
// writes there, console.log included, goes to standard error.
const write = process.stdout.write.bind(process.stdout) as (text: string, done: (error?: Error | null) => void) => boolean;
process.stdout.write = process.stderr.write.bind(process.stderr);

/**
 * exec runs a handler as a program that `once dev` starts: it reads one call a line from standard
 * input, and writes one answer a line to standard output. It returns when the input ends.
 */
export async function exec(handler: Handler): Promise<void> {
  for await (const line of lines(handler.limit)) await print(await answer(handler, line));
}

async function answer(handler: Handler, line: string): Promise<string> {
  try {
    const request = JSON.parse(line);
    // The attempt shows which request this answers.
    return JSON.stringify({ ...(await handler.lambda(request)), attempt: request.attempt });
  } catch (error) {
    return JSON.stringify({ error: textOf(error) });
  }
}

function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => write(text + "\n", (error) => (error ? reject(error) : resolve())));
}

/** lines returns the lines of standard input, of at most so many bytes. */
async function* lines(limit: number): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let size = 0;
  for await (let chunk of process.stdin as AsyncIterable<Buffer>) {
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10)) {
      yield Buffer.concat([...parts, chunk.subarray(0, end)]).toString("utf8");
      [parts, size, chunk] = [[], 0, chunk.subarray(end + 1)];
    }
    parts.push(chunk);
    size += chunk.length;
    if (size > limit) throw new Error(`a call has more than ${limit} bytes`);
  }
}
