import { Problem, UnacknowledgedError } from "./problem.js";

/** The request of every try of a call. */
export interface Request {
  method: string;
  url: string;
  headers?: Headers;
  body?: Uint8Array<ArrayBuffer>;
  /** How long the server was asked to wait, in milliseconds, in addition to the timeout of a try. */
  wait?: number;
}

/** A complete HTTP answer. A truncated one counts as none. */
export class Answer {
  constructor(readonly status: number, readonly statusText: string, readonly headers: Headers, readonly body: Uint8Array<ArrayBuffer>) {}

  text(): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.body);
  }

  /** json parses the body; it returns undefined if that is not a JSON object. */
  json<T extends object>(): Partial<T> | undefined {
    try {
      const value: unknown = JSON.parse(this.text());
      return typeof value === "object" && value !== null ? (value as Partial<T>) : undefined;
    } catch {
      return undefined;
    }
  }

  /** retryAfter returns the wait in Retry-After, in milliseconds, 0 if there is none. */
  retryAfter(): number {
    const text = this.headers.get("Retry-After") ?? "";
    if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, longest);
    const at = Date.parse(text);
    const now = Date.parse(this.headers.get("Date") ?? "");
    return Number.isNaN(at - now) ? 0 : Math.min(Math.max(0, at - now), longest);
  }
}

/** The longest wait of setTimeout, about 24 days. */
const longest = 2 ** 31 - 1;

/** How a call is repeated. All times are in milliseconds. */
export interface Retrying {
  fetch: typeof fetch;
  headers: () => Promise<Headers>;
  tryTimeout: number;
  maxElapsed: number;
  minBackoff: number;
  maxBackoff: number;
  onRetry: (error: unknown, wait: number) => void;
}

/** tryOnce makes one request. It throws if there is no whole answer within `tryTimeout`, or within `most` milliseconds. */
export async function tryOnce(o: Retrying, r: Request, signal?: AbortSignal, most = Infinity): Promise<Answer> {
  const headers = await o.headers();
  r.headers?.forEach((value, name) => headers.set(name, value));
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(new Error("no answer in time")), Math.min(o.tryTimeout + (r.wait ?? 0), most));
  try {
    const init: RequestInit = {
      method: r.method, headers, redirect: "manual", cache: "no-store",
      signal: signal ? AbortSignal.any([signal, timeout.signal]) : timeout.signal,
    };
    if (r.body && r.body.length > 0) init.body = r.body;
    const response = await o.fetch(r.url, init);
    return new Answer(response.status, response.statusText, response.headers, new Uint8Array(await response.arrayBuffer()));
  } finally {
    clearTimeout(timer);
  }
}

/**
 * call repeats a request until `read` accepts an answer. `read` returns the result, or the problem
 * in the answer. It throws a problem that no retry can change, or an UnacknowledgedError when the
 * signal or `maxElapsed` ends the call.
 */
export async function call<T>(o: Retrying, r: Request, signal: AbortSignal | undefined, read: (a: Answer) => T | Problem): Promise<T> {
  const began = Date.now();
  let last: unknown;
  let ambiguous = false;
  for (let tries = 0; ; tries++) {
    if (signal?.aborted) throw new UnacknowledgedError(signal.reason, last);
    let result: T | Problem | undefined;
    try {
      result = read(await tryOnce(o, r, signal, o.maxElapsed - (Date.now() - began)));
    } catch (e) {
      if (signal?.aborted) throw new UnacknowledgedError(signal.reason, last);
      if (last === undefined || Date.now() - began < o.maxElapsed) last = e; // else maxElapsed has cut the try
    }
    if (result !== undefined && !(result instanceof Problem)) return result;
    if (result instanceof Problem) {
      result.ambiguous ||= ambiguous;
      last = result;
      if (!result.retryable) throw result;
    }
    ambiguous = true;
    const wait = pauseOf(o, tries, last);
    if (Date.now() - began + wait > o.maxElapsed) throw new UnacknowledgedError(new Error("maxElapsed is over"), last);
    o.onRetry(last, wait);
    await pause(wait, signal).catch((reason: unknown) => {
      throw new UnacknowledgedError(reason, last);
    });
  }
}

/**
 * pauseOf returns the wait after some tries: it doubles each time, is jittered by half, and is at
 * least the one that the answer asks for.
 */
export function pauseOf(o: Pick<Retrying, "minBackoff" | "maxBackoff">, tries: number, error: unknown): number {
  const grown = Math.min(o.maxBackoff, o.minBackoff * 2 ** Math.min(tries, 30)) * (0.5 + Math.random() / 2);
  // Callers that were refused together do not retry together.
  const asked = error instanceof Problem ? error.retryAfter * (1 + Math.random() / 10) : 0;
  return Math.min(Math.max(grown, asked), longest);
}

/** pause waits. It rejects with the reason of the signal if that is aborted before. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
