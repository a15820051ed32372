import { type Answer, type Call, parseCall } from "./document.js";
import { run, textOf, type HandlerFunction } from "./run.js";
import { importSecrets, verify } from "./signature.js";

/** One secret or several: base64, with or without "whsec_" before it. A string may have several, with white space between them. */
export type Secrets = string | readonly string[];

/** Options of a handler. */
export interface HandlerOptions {
  /**
   * The secrets of requests over HTTP: one, or several while one is replaced. A function gets the
   * second argument of `fetch`, which in Cloudflare Workers has the variables. Invocations of
   * Lambda and lines of a program are not signed.
   */
  secret?: Secrets | ((env: any) => Secrets | undefined) | undefined;
  /** Accepts requests without checking a signature: for a network that only once can reach. */
  unsigned?: boolean;
  /** How far a timestamp may be from the time here, in seconds. Defaults to 300. */
  tolerance?: number;
  /** The largest request in bytes. Defaults to 32 MiB; once sends about 4 MiB, and more for a single large message. */
  limit?: number;
  /** Is called with each error of the function, and the id of the message. Defaults to console.error. What it throws is written to console.error. */
  onError?: (error: unknown, id: string) => void;
}

/** A handler for each way to run it. The methods need no `this`. */
export interface Handler {
  /** Answers an HTTP request: for Cloudflare Workers, Deno, Bun and every other program with fetch. */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>;
  /** Answers an invocation of AWS Lambda. It throws if the first message fails. Tests can call it, too. */
  readonly lambda: (event: unknown) => Promise<Answer>;
  /** The largest request in bytes. */
  readonly limit: number;
}

/**
 * handle makes a handler of a function that gets the state of a group, one message, and an attempt
 * for effects and the reply, and returns the new state. If it throws, the message is retried; a
 * Reject makes it a dead letter.
 */
export function handle<State>(fn: HandlerFunction<State>, options: HandlerOptions = {}): Handler {
  const { limit = 32 << 20, onError = logError } = options;
  const failed = (error: unknown, id: string) => {
    try {
      onError(error, id);
    } catch (thrown) {
      console.error("onError failed:", thrown);
    }
  };
  const answer = (call: Call) => run(fn, call, failed);
  const check = checker(options);
  const fetch = async (request: Request, env?: unknown): Promise<Response> => {
    try {
      if (request.method !== "POST") throw new Refusal(405, "calls are POST requests", { Allow: "POST" });
      const body = await read(request, limit);
      await check(request.headers, body, env);
      const call = parse(body);
      return json(200, "application/json", await answer(call));
    } catch (error) {
      if (error instanceof Refusal) return problem(error.status, error.message, error.headers);
      return problem(500, textOf(error));
    }
  };
  return { fetch, lambda: async (event) => answer(parseCall(event)), limit };
}

function logError(error: unknown, id: string): void {
  console.error(`message ${id}:`, error);
}

/** A Refusal ends a request with a status. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

/** checker returns the function that checks signatures as the options say. It keeps the imported keys. */
function checker({ secret, unsigned = false, tolerance = 300 }: HandlerOptions): (headers: Headers, body: Uint8Array, env: unknown) => Promise<void> {
  let imported: { text: string; keys: Promise<CryptoKey[]> } | undefined;
  return async (headers, body, env) => {
    const secrets = typeof secret === "function" ? secret(env) : secret;
    if (!secrets?.length) {
      if (unsigned) return;
      throw new Error("this handler has no secret: pass the option secret, or unsigned: true");
    }
    const text = typeof secrets === "string" ? secrets : secrets.join(" ");
    if (imported?.text !== text) imported = { text, keys: importSecrets(secrets) };
    const refused = await verify(
      await imported.keys,
      { id: headers.get("webhook-id"), timestamp: headers.get("webhook-timestamp"), signature: headers.get("webhook-signature") },
      body,
      tolerance,
    );
    if (refused) throw new Refusal(401, refused);
  };
}

/** read returns the body of a request, at most so many bytes. */
async function read(request: Request, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = new Refusal(413, `the request has more than ${limit} bytes`);
  if (Number(request.headers.get("content-length")) > limit) throw tooLarge;
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) break;
    size += part.value.length;
    if (size > limit) {
      await reader?.cancel();
      throw tooLarge;
    }
    parts.push(part.value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** parse reads a call in JSON. */
function parse(body: Uint8Array): Call {
  try {
    return parseCall(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)));
  } catch (error) {
    throw new Refusal(400, `the body is no call: ${textOf(error)}`);
  }
}

function problem(status: number, detail: string, headers: Record<string, string> = {}): Response {
  return json(status, "application/problem+json", problemDocument(status, detail), headers);
}

/** @internal problemDocument returns a problem (RFC 9457). */
export function problemDocument(status: number, detail: string): object {
  return { type: "about:blank", title: titles[status], status, detail };
}

const titles: Record<number, string> = {
  400: "Bad Request",
  401: "Unauthorized",
  405: "Method Not Allowed",
  413: "Content Too Large",
  500: "Internal Server Error",
};

function json(status: number, contentType: string, value: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(value), { status, headers: { "Content-Type": contentType, "Cache-Control": "no-store", ...headers } });
}
