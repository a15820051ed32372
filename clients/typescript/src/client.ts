import { lineOf, readLines, type BatchMessage, type LineResult } from "./batch.js";
import { headersOf, identity, newKey, toBytes, type Message } from "./message.js";
import { Problem, problemOf, UnacknowledgedError } from "./problem.js";
import { Answer, call, tryOnce, type Request, type Retrying } from "./retry.js";
import { Tail, type TailOptions } from "./tail.js";

/** Headers in one of the forms that `new Headers` takes. */
export type HeaderList = Headers | Record<string, string> | [string, string][];

/** Options of a client. All times are in milliseconds. */
export interface ClientOptions {
  /** Headers of every request, for example Authorization; a function is called for each try. Defaults to none. */
  headers?: HeaderList | (() => HeaderList | Promise<HeaderList>);
  /** Makes the requests. Defaults to the global fetch. */
  fetch?: typeof fetch;
  /** The timeout of one try, in addition to a wait for the reply. Defaults to 30,000. */
  tryTimeout?: number;
  /** The timeout of one call with all its tries. Defaults to none: a call goes on until its signal is aborted. */
  maxElapsed?: number;
  /** The first and the longest wait between two tries. They default to 100 and 10,000. A longer Retry-After takes precedence. */
  minBackoff?: number;
  maxBackoff?: number;
  /** Called with the reason of a retry and the wait before it. */
  onRetry?: (error: unknown, wait: number) => void;
  /** Makes keys for messages that have none. Defaults to version 7 UUIDs. */
  newKey?: () => string;
}

/** Options of one call. */
export interface CallOptions {
  /** Ends the call with an UnacknowledgedError. */
  signal?: AbortSignal;
}

export interface SendOptions extends CallOptions {
  /** Asks for the handler's reply if it is ready within so many seconds, at most 60. Defaults to 0: no wait. */
  wait?: number;
}

/** Says that a message is durable. */
export interface Receipt {
  /** The key, or source/epoch/sequence. */
  id: string;
  stream: string;
  group: string;
  /** `done` if the server has processed the message, otherwise `accepted`. */
  status: "accepted" | "done";
  /** When a delayed message is due. */
  notBefore?: Date;
  /** True if the server had the message before. */
  replayed: boolean;
  /** The handler's reply, if the call waited and the handler replied in time. */
  reply?: Reply;
}

/** A handler's reply. */
export interface Reply {
  status: number;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
  /** True if this is a stored reply, and the handler did not run again. */
  replayed: boolean;
}

/** The state of a message. */
export interface Status {
  id: string;
  stream: string;
  group: string;
  status: "accepted" | "held" | "committed" | "done" | "rejected";
  /** Why the message was rejected. */
  reason?: string;
  /** The text with which the handler refused it. */
  detail?: string;
  /** The handler's reply; a body that is not UTF-8 is in `body_base64`. */
  reply?: { status: number; headers?: Record<string, string[]>; body?: string; body_base64?: string };
}

/** The content of a one-time request. The caller chooses the id. */
export type OneTimeRequest = Pick<Message, "stream" | "group" | "contentType" | "headers" | "body"> & { id: string };

/** Calls one server. */
export class Client {
  readonly #base: string;
  readonly #retrying: Retrying;
  readonly #newKey: () => string;

  /** Takes the server's http or https URL; a path before /v1 is kept. It sends nothing. */
  constructor(baseURL: string | URL, options: ClientOptions = {}) {
    const url = new URL(baseURL);
    if (!/^https?:$/.test(url.protocol) || url.search || url.hash) {
      throw new TypeError("the server's URL must be absolute, http or https, without a query or a fragment");
    }
    this.#base = url.href.replace(/\/+$/, "");
    const headers = options.headers;
    if (typeof headers !== "function") new Headers(headers); // throws if one is invalid
    this.#retrying = {
      fetch: options.fetch ?? ((input, init) => fetch(input, init)),
      headers: async () => new Headers(typeof headers === "function" ? await headers() : headers),
      tryTimeout: options.tryTimeout ?? 30_000,
      maxElapsed: options.maxElapsed ?? Infinity,
      minBackoff: options.minBackoff ?? 100,
      maxBackoff: options.maxBackoff ?? 10_000,
      onRetry: options.onRetry ?? (() => {}),
    };
    this.#newKey = options.newKey ?? newKey;
  }

  /**
   * Sends a message until it is acknowledged. Every try has the same key, so the server processes
   * the message once.
   *
   * It retries after network errors, 408, 409, 425, 429 and 5xx, and waits as long as Retry-After
   * says. It throws a {@link Problem} if the server refuses the message, an
   * {@link UnacknowledgedError} if the signal or `maxElapsed` ends the call, and a TypeError if a
   * field is invalid. The first two have the key of the message.
   */
  async send(message: Message, options: SendOptions = {}): Promise<Receipt> {
    const m = message.key || message.source ? message : { ...message, key: this.#newKey() };
    const headers = headersOf(m);
    const seconds = Math.min(60, Math.ceil(options.wait ?? 0));
    if (seconds > 0 && m.notBefore) throw new TypeError("a delayed message has no reply to wait for");
    if (seconds > 0) headers.set("Prefer", `wait=${seconds}`);
    const r = { method: "POST", url: this.#at("streams", m.stream, "messages"), headers, body: toBytes(m.body), wait: seconds * 1000 };
    return this.#keyed(m.key, r, options, (a) => {
      if (seconds > 0 && ofHandler(a)) {
        const group = m.group || m.source || m.key!;
        return { id: identity(m), stream: m.stream, group, status: "done", replayed: replayed(a), reply: replyOf(a) };
      }
      return receiptOf(a, m.stream, identity(m)) ?? problemOf(a);
    });
  }

  /** Looks a message up by its id: the key, or source/epoch/sequence with the group if that is not the source. */
  async status(stream: string, id: string, options: CallOptions & { group?: string } = {}): Promise<Status> {
    const query = options.group ? `?group=${encodeURIComponent(options.group)}` : "";
    return this.#call({ method: "GET", url: this.#at("streams", stream, "messages", id) + query }, options, (a) => {
      const s = a.json<Status>();
      return a.status === 200 && s?.id === id && s.stream === stream && s.status ? (s as Status) : problemOf(a);
    });
  }

  /**
   * Stores a one-time request; nothing runs yet. It returns whether the request is new, and throws
   * a problem of type `key-reuse` if the id was used for other content.
   */
  async putRequest(q: OneTimeRequest, options: CallOptions = {}): Promise<boolean> {
    const { id, ...content } = q;
    const r = { method: "PUT", url: this.#requestAt(q.stream, id), headers: headersOf(content), body: toBytes(q.body) };
    return this.#keyed(id, r, options, (a) => (receiptOf(a, q.stream, id) ? a.status === 201 : problemOf(a)));
  }

  /**
   * Runs a stored request once, or returns the reply of the first run. If the handler set no reply,
   * the reply is the server's receipt.
   */
  async runRequest(stream: string, id: string, options: CallOptions = {}): Promise<Reply> {
    const r = { method: "POST", url: this.#requestAt(stream, id) };
    return this.#keyed(id, r, options, (a) =>
      ofHandler(a) || receiptOf(a, stream, id)?.status === "done" ? replyOf(a) : problemOf(a));
  }

  /** Deletes a request and its reply. */
  async deleteRequest(stream: string, id: string, options: CallOptions = {}): Promise<void> {
    const r = { method: "DELETE", url: this.#requestAt(stream, id) };
    await this.#keyed(id, r, options, (a) => (a.status === 204 ? true : problemOf(a)));
  }

  /**
   * Asks for an epoch of a source in a group of a numbered stream; the group defaults to the
   * source. Number the messages from 1 under it. From then on the messages of the source's earlier
   * epochs are refused as `fenced`.
   */
  async issueEpoch(stream: string, source: string, options: CallOptions & { group?: string } = {}): Promise<number> {
    for (let after = 0; ; ) {
      const query = new URLSearchParams({ after: String(after), ...(options.group ? { group: options.group } : {}) });
      try {
        return await this.#call({ method: "POST", url: `${this.#at("streams", stream, "epochs", source)}?${query}` }, options, (a) => {
          const epoch = a.status === 200 ? a.json<{ epoch: number }>()?.epoch : undefined;
          return epoch && Number.isSafeInteger(epoch) ? epoch : problemOf(a);
        });
      } catch (e) {
        // Naming the newest epoch keeps a try that arrives late without an effect.
        if (!(e instanceof Problem) || e.type !== "fenced" || !e.epoch || e.epoch === after) throw e;
        after = e.epoch;
      }
    }
  }

  /** Reads the log of a group in order, and then waits for new entries: `for await (const entry of client.tail(…))`. */
  tail(stream: string, group: string, options: TailOptions = {}): Tail {
    const at = this.#at("streams", stream, "groups", group, "log");
    return new Tail((query, wait, signal, read) => {
      const r = { method: "GET", url: `${at}?${query}`, headers: new Headers({ Accept: "application/json" }), wait };
      return this.#call(r, signal ? { signal } : {}, read);
    }, this.#retrying.minBackoff, options);
  }

  /**
   * Sends messages of one stream in one request, once. It returns the result of each, or throws the
   * problem of the whole request or the error of the network.
   *
   * @internal
   */
  async tryBatch(stream: string, messages: BatchMessage[], signal: AbortSignal): Promise<LineResult[]> {
    const body = toBytes(messages.map(lineOf).join(""));
    const headers = new Headers({ "Content-Type": "application/x-ndjson" });
    const answer = await tryOnce(this.#retrying, { method: "POST", url: this.#at("streams", stream, "batch"), headers, body }, signal);
    const results = readLines(answer, messages);
    if (results instanceof Problem) throw results;
    return results;
  }

  /** @internal */
  get retrying(): Readonly<Retrying> {
    return this.#retrying;
  }

  /** @internal */
  get makeKey(): () => string {
    return this.#newKey;
  }

  /** at returns the URL of a path below /v1. Segments are escaped, so that an id may contain slashes. */
  #at(...segments: string[]): string {
    if (segments.includes("")) throw new TypeError("streams, groups, sources and ids must not be empty");
    return `${this.#base}/v1/${segments.map((s) => (/^\.\.?$/.test(s) ? s.replace(/\./g, "%2E") : encodeURIComponent(s))).join("/")}`;
  }

  #requestAt(stream: string, id: string): string {
    return this.#at("streams", stream, "requests", id);
  }

  #call<T>(r: Request, options: CallOptions, read: (a: Answer) => T | Problem): Promise<T> {
    return call(this.#retrying, r, options.signal, read);
  }

  /** keyed makes a call, and adds the key to its error: the caller does not know a generated key. */
  async #keyed<T>(key: string | undefined, r: Request, options: CallOptions, read: (a: Answer) => T | Problem): Promise<T> {
    try {
      return await this.#call(r, options, read);
    } catch (e) {
      if (e instanceof Problem || e instanceof UnacknowledgedError) e.key = key;
      throw e;
    }
  }
}

/**
 * receiptOf reads a message's receipt; it returns undefined for any other answer. The body must
 * name the message and have a valid status, because a proxy may answer JSON with a status too.
 */
function receiptOf(a: Answer, stream: string, id: string): Receipt | undefined {
  if (![200, 201, 202].includes(a.status)) return undefined;
  const r = a.json<Omit<Receipt, "notBefore"> & { not_before?: string }>();
  if (r?.stream !== stream || r.id !== id || (r.status !== "accepted" && r.status !== "done")) return undefined;
  const due = r.not_before ? { notBefore: new Date(r.not_before) } : {};
  return { id, stream, group: r.group ?? "", status: r.status, ...due, replayed: replayed(a) };
}

/** The server marks every reply of a handler with a header, and only replies. */
function ofHandler(a: Answer): boolean {
  return a.headers.get("Once-Reply") === "true";
}

function replayed(a: Answer): boolean {
  return a.headers.get("Idempotent-Replayed") === "true";
}

function replyOf(a: Answer): Reply {
  return { status: a.status, headers: a.headers, body: a.body, replayed: replayed(a) };
}
