import { encodeBody, unicode, type BodyOptions } from "./body.js";
import type { AnsweredMessage, EncodedBody, EncodedEffect } from "./document.js";

/** A time span: a number and ms, s, m, h or d, such as "30s", "15m" or "7d". Days are whole numbers. */
export type Duration = `${number}${"ms" | "s" | "m" | "h" | "d"}`;

/** How a message is sent. */
export interface SendOptions extends BodyOptions {
  /** The group at the destination. Defaults to the group of the message that is handled. */
  group?: string;
  /** How long after the commit it is sent. Defaults to no delay. */
  after?: Duration;
}

/**
 * The results of one message besides the new state. They become real together with it, in one
 * commit, or not at all.
 */
export class Attempt {
  #reply: (EncodedBody & { status: number }) | undefined;
  #effects: EncodedEffect[] = [];
  #append: EncodedBody[] = [];
  #ended = false;

  /** reply sets the answer to the caller, and to every duplicate of the message. The last call counts. */
  reply(status: number, body?: unknown, options?: BodyOptions): void {
    this.#check();
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new TypeError(`the status of a reply must be a whole number from 200 to 599, not ${status}`);
    this.#reply = { status, ...encodeBody(body, options) };
  }

  /** send adds a message to a destination of the stream. It is sent after the commit, under one id. */
  send(to: string, body?: unknown, options: SendOptions = {}): void {
    this.#check();
    named(to, "a destination");
    const { group, after } = options;
    this.#effects.push({ to, ...(group === undefined ? {} : { group: named(group, "a group") }), ...(after === undefined ? {} : { after: checked(after) }), ...encodeBody(body, options) });
  }

  /** append adds an entry to the log of the group. */
  append(body: unknown, options?: BodyOptions): void {
    this.#check();
    this.#append.push(encodeBody(body, options));
  }

  /**
   * timer sends a message to the own group after some time. Its field `timer` is the name. A timer
   * that is set again is replaced.
   */
  timer(name: string, after: Duration, body?: unknown, options?: BodyOptions): void {
    this.#check();
    this.#effects.push({ timer: named(name, "a timer"), after: checked(after), ...encodeBody(body, options) });
  }

  /** cancel removes a timer. It is no error if there is none with this name. */
  cancel(name: string): void {
    this.#check();
    this.#effects.push({ cancel: named(name, "a timer") });
  }

  /** @internal end returns the results. After it, no method may be called. */
  end(id: string): AnsweredMessage {
    this.#ended = true;
    return {
      id,
      ...(this.#reply ? { reply: this.#reply } : {}),
      ...(this.#effects.length > 0 ? { effects: this.#effects } : {}),
      ...(this.#append.length > 0 ? { append: this.#append } : {}),
    };
  }

  /** @internal abandon discards the results. */
  abandon(): void {
    this.#ended = true;
  }

  #check(): void {
    if (this.#ended) throw new Error("the attempt has ended: await every promise before the handler returns");
  }
}

function named(name: string, of: string): string {
  if (typeof name !== "string" || name === "") throw new TypeError(`the name of ${of} must be a string that is not empty`);
  unicode(name, `the name of ${of}`);
  return name;
}

function checked(after: string): string {
  if (!/^(?=.)(\d+d)?(\d+(\.\d+)?(ms|s|m|h))*$/.test(after)) throw new TypeError(`a time span must be a number and ms, s, m or h, or a whole number of days, such as "15m" or "7d", not ${JSON.stringify(after)}`);
  return after;
}
