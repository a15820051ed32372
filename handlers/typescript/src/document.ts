/** The documents between once and a handler. */

/** A body in a document: JSON or text in `body`, all other bytes in `body_base64`. */
export interface EncodedBody {
  content_type?: string;
  headers?: Record<string, string>;
  body?: unknown;
  body_base64?: string;
}

/** A message of a call. */
export interface CallMessage extends EncodedBody {
  id: string;
  try?: number;
  accepted?: string;
  source?: string;
  epoch?: number;
  sequence?: number;
  timer?: string;
}

/** A call: messages of one group, in order, with the state of the group. */
export interface Call {
  stream: string;
  group: string;
  version?: number;
  attempt?: string;
  state?: unknown;
  messages: CallMessage[];
}

/** An effect of a message: a send, a timer, or the cancellation of a timer. */
export type EncodedEffect = (EncodedBody & { to: string; group?: string; after?: string }) | (EncodedBody & { timer: string; after: string }) | { cancel: string };

/** The answer to one message. */
export type AnsweredMessage =
  | { id: string; reply?: EncodedBody & { status: number }; effects?: EncodedEffect[]; append?: EncodedBody[] }
  | { id: string; reject: string };

/** The answer to a call. Without `state` the state stays as it is; `null` clears it. */
export interface Answer {
  state?: unknown;
  messages: AnsweredMessage[];
}

/** parseCall checks a document that JSON.parse returned. It throws a TypeError that names the first mistake. */
export function parseCall(value: unknown): Call {
  const call = fields(value, "the call");
  text(call, "stream");
  text(call, "group");
  const messages = call["messages"];
  if (!Array.isArray(messages) || messages.length === 0) throw new TypeError("messages must be a list with at least one message");
  for (const message of messages) text(fields(message, "a message"), "id");
  return call as unknown as Call;
}

function fields(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError(`${name} must be a JSON object`);
  return value as Record<string, unknown>;
}

function text(of: Record<string, unknown>, name: string): void {
  if (typeof of[name] !== "string") throw new TypeError(`${name} must be a string`);
}
