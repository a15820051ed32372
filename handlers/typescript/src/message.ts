import { fromBase64, isJSON } from "./body.js";
import type { Call, CallMessage } from "./document.js";
import { Reject } from "./reject.js";

const encoder = new TextEncoder();

/** A message that a handler gets. */
export class Message {
  /** Identifies the message in its stream, the same in every try. */
  readonly id: string;
  /** The stream of the message. */
  readonly stream: string;
  /** The group of the message: the owner of the state. */
  readonly group: string;
  /**
   * The content: a JSON value if the media type is that of JSON, a string if it is other text, a
   * Uint8Array if it is not UTF-8, undefined if it is empty.
   */
  readonly body: unknown;
  /** The media type of the body; undefined if the sender named none. */
  readonly contentType: string | undefined;
  /** The headers of the message, with the names that the sender wrote. */
  readonly headers: Readonly<Record<string, string>>;
  /** 1 in the first try of this message, 2 in the second, and so on. */
  readonly try: number;
  /** When once acknowledged the message; for a timer or a delayed message, when it was due. */
  readonly accepted: Date | undefined;
  /** The name of the timer, if this message is one that a handler set. */
  readonly timer: string | undefined;
  /** If the sender numbers its messages: its name, its epoch, and the number. */
  readonly source: string | undefined;
  readonly epoch: number | undefined;
  readonly sequence: number | undefined;

  /** @internal */
  constructor(call: Call, m: CallMessage) {
    this.id = m.id;
    this.stream = call.stream;
    this.group = call.group;
    this.body = m.body_base64 === undefined ? m.body : fromBase64(m.body_base64);
    this.contentType = m.content_type;
    this.headers = m.headers ?? {};
    this.try = m.try ?? 1;
    this.accepted = m.accepted === undefined ? undefined : new Date(m.accepted);
    this.timer = m.timer;
    this.source = m.source;
    this.epoch = m.epoch;
    this.sequence = m.sequence;
  }

  /**
   * json returns the content as a JSON value, whatever its media type is. It throws a Reject if the
   * content is not JSON: no retry would change that. The type is a claim that nothing checks.
   */
  json<T = unknown>(): T {
    if (isJSON(this.contentType) && !(this.body instanceof Uint8Array)) return this.body as T;
    try {
      return JSON.parse(this.text()) as T;
    } catch (error) {
      throw new Reject("the body is not JSON", { cause: error });
    }
  }

  /** text returns the content as text. A JSON value is written without spaces between its parts. */
  text(): string {
    if (this.body === undefined) return "";
    if (this.body instanceof Uint8Array) return new TextDecoder().decode(this.body);
    return typeof this.body === "string" && !isJSON(this.contentType) ? this.body : JSON.stringify(this.body);
  }

  /** bytes returns the content as bytes. A JSON value is written without spaces between its parts. */
  bytes(): Uint8Array {
    return this.body instanceof Uint8Array ? this.body : encoder.encode(this.text());
  }
}
