import type { Answer } from "./retry.js";

/** The kind of a refusal: the fragment of the problem's type URI. Programs may rely on it. */
export type ProblemType =
  | "missing-key" | "malformed-key" | "malformed-request" | "invalid-message" | "rejected" | "unauthorized" | "forbidden"
  | "unknown-route" | "unknown-stream" | "unknown-message" | "no-log" | "no-pool" | "unknown-session"
  | "method-not-allowed" | "not-acceptable" | "incomplete-body" | "leased" | "ended" | "ahead" | "fenced" | "deleted"
  | "expired" | "unknown-epoch" | "too-large" | "unsupported-media-type" | "key-reuse" | "rate-limited" | "internal"
  | "unavailable" | "loop" | "held" | "moved" | "retired" | "restored"
  | (string & {});

/** The fields of a problem, as they are stored and sent. */
export interface ProblemFields {
  type: ProblemType | "";
  title: string;
  status: number;
  detail?: string;
  instance?: string;
  /** The requested wait in milliseconds, 0 if there is none. */
  retryAfter?: number;
  /** With `expired`: the number of the first entry that is kept. */
  first?: number;
  /** With `expired` and `ahead`: the offset at which a reader can continue. */
  next?: string;
  /** With `fenced`: the newest epoch of the source. */
  epoch?: number;
}

/**
 * An answer that is neither a receipt nor a reply (RFC 9457).
 *
 * If `type` is set, the server has refused the request. If `type` is empty, a proxy, a firewall or
 * a login page has answered. Then the server may have accepted the message, and `ambiguous` is true.
 */
export class Problem extends Error {
  override readonly name = "Problem";
  readonly type: ProblemType | "";
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** The id of the request in the server's log. */
  readonly instance: string;
  /** The requested wait in milliseconds, 0 if there is none; at most a minute if `type` is empty. */
  readonly retryAfter: number;
  readonly first: number | undefined;
  readonly next: string | undefined;
  readonly epoch: number | undefined;
  /** True if the server may have accepted the message anyway, in this or an earlier try. */
  ambiguous: boolean;
  /** The message's key, even if it was generated; the id of a one-time request. */
  key: string | undefined;

  constructor(fields: ProblemFields) {
    super(`${fields.status} ${fields.title}${fields.type ? ` (${fields.type})` : ""}${fields.detail ? `: ${fields.detail}` : ""}`);
    this.type = fields.type;
    this.title = fields.title;
    this.status = fields.status;
    this.detail = fields.detail ?? "";
    this.instance = fields.instance ?? "";
    this.retryAfter = fields.retryAfter ?? 0;
    this.first = fields.first;
    this.next = fields.next;
    this.epoch = fields.epoch;
    this.ambiguous = fields.type === "";
  }

  /** True if the same request, sent again, may be answered otherwise. */
  get retryable(): boolean {
    return retryable(this.type, this.status);
  }

  /** The fields, to store them. */
  toJSON(): ProblemFields {
    const fields: ProblemFields = { type: this.type, title: this.title, status: this.status };
    if (this.detail) fields.detail = this.detail;
    if (this.instance) fields.instance = this.instance;
    return fields;
  }
}

/**
 * A call that ended without an acknowledgement, by its signal or by `maxElapsed`. The message may
 * have been accepted: send it again under the same key.
 */
export class UnacknowledgedError extends Error {
  override readonly name = "UnacknowledgedError";
  readonly retryable = true;
  /** The message's key, even if it was generated; the id of a one-time request. */
  key: string | undefined;
  /** The last answer, if there was one. */
  readonly last: Problem | undefined;

  constructor(reason: unknown, last: unknown) {
    const because = last instanceof Error && last !== reason ? `; the last try: ${last.message}` : "";
    super(`not acknowledged: ${reason instanceof Error ? reason.message : String(reason)}${because}`, { cause: reason });
    this.last = last instanceof Problem ? last : undefined;
  }
}

/** Types whose status would be retried, but whose answer stays: a newer epoch, the end of a log. */
const final = ["ahead", "fenced", "ended", "loop", "held", "moved", "restored", "retired"];

function retryable(type: string, status: number): boolean {
  if (final.includes(type)) return false;
  if ([408, 409, 425, 429].includes(status)) return true;
  return status >= 500 && status !== 501 && status !== 505;
}

const typeBase = "https://github.com/effectively-once/once/";

/** A problem as JSON. Its `retry_after` is in seconds. */
export interface ProblemDocument {
  type?: string;
  title?: string;
  detail?: string;
  instance?: string;
  first?: number;
  next?: string;
  epoch?: number;
  retry_after?: number;
}

/** problemFrom reads a problem of a once server; it returns undefined for anything else. */
export function problemFrom(doc: ProblemDocument | undefined, status: number, retryAfter = 0): Problem | undefined {
  if (typeof doc?.type !== "string" || !doc.type.startsWith(typeBase) || !doc.type.includes("#")) return undefined;
  const fields: ProblemFields = {
    type: doc.type.slice(doc.type.indexOf("#") + 1), title: doc.title ?? "", status,
    retryAfter: doc.retry_after ? doc.retry_after * 1000 : retryAfter,
  };
  if (doc.detail !== undefined) fields.detail = doc.detail;
  if (doc.instance !== undefined) fields.instance = doc.instance;
  if (doc.first !== undefined) fields.first = doc.first;
  if (doc.next !== undefined) fields.next = doc.next;
  if (doc.epoch !== undefined) fields.epoch = doc.epoch;
  return new Problem(fields);
}

/** problemOf returns a problem for any answer that is not a success. */
export function problemOf(a: Answer): Problem {
  const media = (a.headers.get("Content-Type") ?? "").split(";")[0]!.trim().toLowerCase();
  const own = media === "application/problem+json" && a.status >= 400 ? problemFrom(a.json<ProblemDocument>(), a.status, a.retryAfter()) : undefined;
  if (own) return own;
  const redirect = a.status < 400 && (a.status === 0 || a.status >= 300);
  return new Problem({
    type: "", title: a.statusText || "Unexpected answer", status: a.status, retryAfter: Math.min(a.retryAfter(), 60_000),
    detail: redirect ? "redirects are not followed" : "the answer is not that of a once server",
  });
}
