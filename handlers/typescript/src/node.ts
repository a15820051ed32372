import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { type Handler, problemDocument } from "./handle.js";
import { textOf } from "./run.js";

/**
 * listener returns a handler as a listener of node:http, and of servers that have the same form,
 * such as Express. Nothing may have read the body before: put it before body parsers.
 */
export function listener(handler: Handler): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  return async (request, response) => {
    try {
      await answer(handler, request, response);
    } catch (error) {
      // A body that was read before, or a connection that is gone.
      if (response.headersSent) response.destroy();
      else response.writeHead(500, { "Content-Type": "application/problem+json" }).end(JSON.stringify(problemDocument(500, textOf(error))));
    }
  };
}

async function answer(handler: Handler, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.readableEnded) throw new Error("the body was read before the handler: put the handler before body parsers");
  const result = await handler.fetch(toRequest(request));
  const body = new Uint8Array(await result.arrayBuffer());
  response.writeHead(result.status, Object.fromEntries(result.headers));
  response.end(body);
}

function toRequest(request: IncomingMessage): Request {
  const headers = new Headers();
  for (const name of ["content-length", "webhook-id", "webhook-timestamp", "webhook-signature"]) {
    const value = request.headers[name];
    if (typeof value === "string") headers.set(name, value);
  }
  const method = request.method ?? "GET";
  const init: RequestInit & { duplex: "half" } = { method, headers, duplex: "half" };
  if (method !== "GET" && method !== "HEAD") init.body = Readable.toWeb(request) as ReadableStream<Uint8Array>;
  return new Request("http://handler/", init);
}
