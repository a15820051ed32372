import type { Client } from "./client.js";
import { check, toBytes, type Message } from "./message.js";
import { Problem } from "./problem.js";
import { pause, pauseOf } from "./retry.js";
import type { PendingMessage, RefusedMessage, SenderStorage, Settlement, StoredMessage } from "./storage.js";

/** What a sender takes: stream, and for numbered messages source, epoch, sequence and group, are its own. */
export type OutgoingMessage = Omit<Message, "stream" | "source" | "epoch" | "sequence">;

/** Options of a sender. All times are in milliseconds. */
export interface SenderOptions {
  client: Client;
  /** The stream of all messages. */
  stream: string;
  /** Keeps the messages. Each sender has a storage of its own; tabs of one page share one. */
  storage: SenderStorage;
  /**
   * Numbers the messages: the stream has to be numbered (`admission: sequence`). Give each device a
   * source of its own. Defaults to none: the messages have keys.
   */
  source?: string;
  /** The group of numbered messages. Defaults to the source. Messages with keys have their own groups. */
  group?: string;
  /** How many messages may be pending: `send` throws a FullError beyond that. Defaults to 10,000. */
  maxPending?: number;
  /**
   * A message with a key that is older is not sent any more, but refused with the type `too-old`:
   * the server forgets a key after 15 days, and an earlier try may have been accepted. Defaults to
   * 14 days.
   */
  maxAge?: number;
  /** Called after messages are acknowledged, with their numbers; after a crash it may be called again. */
  onAcknowledged?: (numbers: number[]) => void;
  /** Called after a message is moved to the refused ones. */
  onRefused?: (refused: RefusedMessage) => void;
  /** Called after a failed try, with its error and the wait before the next one. */
  onRetry?: (error: unknown, wait: number) => void;
  /** Called if the sender stops for good: see {@link Sender}. */
  onStop?: (error: unknown) => void;
}

/** Says that a sender has as many pending messages as it may keep. */
export class FullError extends Error {
  override readonly name = "FullError";
}

const day = 24 * 60 * 60 * 1000;
const maxBody = 1 << 20;
const maxNumberedBody = 256 << 10;
/** How many messages are sent together, and how many bytes of bodies; base64 takes a third more. */
const maxBatch = 1000;
const maxBatchBytes = 5 << 18;
const lostChange = 10_000;

/**
 * Sends messages in order. It keeps each in its storage before the first try and until the server
 * has acknowledged it, and sends it again under the same key or number: after lost connections,
 * crashes of the server, reloads and crashes of the page or process. So each takes effect once.
 *
 * `send` does not wait for the server: it works offline. Of all tabs that share a storage one sends.
 *
 * A message that the server refuses for good is moved to the list of refused messages, and those
 * after it are sent. If the whole request is refused, because a login has expired or the stream
 * does not exist, nothing is moved: the sender reports it with `onRetry`, and tries again.
 *
 * A numbered sender gets an epoch from the server before its first message. It stops for good if
 * the server has issued a newer one (`fenced`), has forgotten this one (`unknown-epoch`), or the
 * log has ended (`ended`): then it calls `onStop`, and `send` and `flush` throw the problem.
 */
export class Sender {
  readonly #o: SenderOptions;
  readonly #stop = new AbortController();
  readonly #wakers = new Set<() => void>();
  #unwatch = () => {};
  #running: Promise<void> = Promise.resolve();
  #error: unknown;
  #trouble: unknown;
  #changes = 0;

  private constructor(options: SenderOptions) {
    this.#o = options;
  }

  /** Opens the storage, and starts to send what is in it. Call {@link close} in the end. */
  static async open(options: SenderOptions): Promise<Sender> {
    const s = new Sender(options);
    s.#complete({});
    await options.storage.open({ stream: options.stream, source: options.source ?? "", group: s.#group() });
    s.#unwatch = options.storage.watch(() => s.#wake());
    s.#running = s.#run();
    return s;
  }

  /**
   * Stores a message, and returns its number and key; it is sent later. The message is durable when
   * the promise resolves. It throws a TypeError if a field is invalid, a {@link FullError}, or the
   * error of the storage. After an error the message is not sent, unless the storage failed: then
   * it may be stored.
   */
  async send(message: OutgoingMessage): Promise<{ number: number; key: string | undefined }> {
    this.#check();
    const { body, ...rest } = message;
    const stored: StoredMessage = structuredClone(rest);
    if (!this.#o.source) stored.key ||= this.#o.client.makeKey();
    else delete stored.group;
    if (body !== undefined) stored.body = toBytes(body);
    this.#complete(stored);
    const most = this.#o.source ? maxNumberedBody : maxBody;
    if ((stored.body?.length ?? 0) > most) throw new TypeError(`body must be at most ${most} bytes`);
    const number = await this.#o.storage.add(stored, this.#o.maxPending ?? 10_000);
    if (number === 0) throw new FullError("too many messages are not acknowledged");
    return { number, key: stored.key };
  }

  /** Returns the number of the last message that was stored, 0 if there is none. */
  async last(): Promise<number> {
    return (await this.#o.storage.state()).last;
  }

  /** Returns how many messages are not acknowledged. */
  async pending(): Promise<number> {
    return (await this.#o.storage.state()).pending;
  }

  /** Returns the messages that the server will never accept, until {@link forget} removes them. */
  refused(): Promise<RefusedMessage[]> {
    return this.#o.storage.refused();
  }

  /** Removes a message from the refused ones. */
  forget(number: number): Promise<void> {
    return this.#o.storage.forget(number);
  }

  /**
   * Waits until every message that was stored before the call is acknowledged or refused. It throws
   * the problem that has stopped the sender, or the reason of the signal, whose `cause` is then the
   * last failure.
   */
  async flush(options: { signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = options;
    const end = await this.last();
    for (;;) {
      const seen = this.#changes;
      const [first] = await this.#o.storage.pending(1, 0);
      if (!first || first.number > end) return;
      this.#check();
      if (signal?.aborted) throw new Error("messages are not acknowledged", { cause: this.#trouble ?? signal.reason });
      await this.#changed(seen, signal);
    }
  }

  /** Ends the sender and closes the storage. Pending messages stay there. */
  async close(): Promise<void> {
    this.#stop.abort(new Error("the sender is closed"));
    await this.#running;
    this.#unwatch();
    await this.#o.storage.close();
  }

  #group(): string {
    return this.#o.source ? this.#o.group || this.#o.source : "";
  }

  /** complete adds what the sender decides, and checks the message. */
  #complete(m: StoredMessage, number = 1, epoch = 0): Message {
    const { source, stream } = this.#o;
    const whole: Message = source ? { ...m, stream, source, group: this.#group(), epoch, sequence: number } : { ...m, stream };
    check(whole);
    return whole;
  }

  #check(): void {
    if (this.#error !== undefined) throw this.#error;
    if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
  }

  /** run sends while it is this sender's turn. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    try {
      await this.#o.storage.exclusive(signal, async () => {
        for (let tries = 0; !signal.aborted; ) {
          tries = (await this.#round(tries)) ? 0 : tries + 1;
        }
      });
    } catch (e) {
      if (signal.aborted) return;
      this.#error = e;
      this.#wake();
      this.#o.onStop?.(e);
    }
  }

  /** round sends what is pending once, and waits. It returns false if it failed, and throws if the sender has to stop. */
  async #round(tries: number): Promise<boolean> {
    const { signal } = this.#stop;
    const seen = this.#changes;
    const part = await this.#o.storage.pending(maxBatch, maxBatchBytes);
    if (part.length === 0) {
      await this.#changed(seen, signal);
      return true;
    }
    let failure: unknown;
    try {
      failure = await this.#deliver(part);
    } catch (e) {
      if (e instanceof Stopped) throw e.cause;
      if (signal.aborted) return false;
      failure = e;
    }
    this.#trouble = failure;
    if (failure === undefined) return true;
    const wait = pauseOf(this.#o.client.retrying, tries, failure);
    this.#o.onRetry?.(failure, wait);
    await online(wait, this.#o.client.retrying.maxBackoff, signal);
    return false;
  }

  /** deliver sends messages once and settles those that have a definite answer. It returns why others are to be sent again. */
  async #deliver(part: PendingMessage[]): Promise<unknown> {
    const settlement: Settlement = { acknowledged: [], refused: [], keepNumbers: Boolean(this.#o.source) };
    const fresh = part.filter((p) => !this.#tooOld(p, settlement));
    let again: unknown;
    if (fresh.length > 0) {
      const epoch = await this.#epoch();
      const messages = fresh.map((p) => {
        const m = this.#complete(p.message, p.number, epoch);
        return p.void ? { ...m, void: true } : m;
      });
      const results = await this.#send(messages);
      for (const [i, problem] of results.entries()) {
        const p = fresh[i]!;
        if (!problem) settlement.acknowledged.push(p.number);
        else if (this.#stops(problem, p)) throw new Stopped(problem);
        else if (triedAgain(problem)) again ??= problem;
        else settlement.refused.push({ number: p.number, at: p.at, message: p.message, problem: problem.toJSON() });
      }
    }
    await this.#settle(settlement);
    return again;
  }

  /** send sends messages once, and returns the results of the first ones: fewer if the request is too large, for a proxy perhaps. */
  async #send(messages: (Message & { void?: boolean })[]): Promise<(Problem | undefined)[]> {
    for (let n = messages.length; ; n = Math.ceil(n / 2)) {
      try {
        return await this.#o.client.tryBatch(this.#o.stream, messages.slice(0, n), this.#stop.signal);
      } catch (e) {
        if (!(e instanceof Problem) || e.status !== 413 || n === 1) throw e;
      }
    }
  }

  #tooOld(p: PendingMessage, settlement: Settlement): boolean {
    if (this.#o.source || Date.now() - p.at <= (this.#o.maxAge ?? 14 * day)) return false;
    const problem = { type: "too-old", title: "Message is too old", status: 0, detail: "The server may have forgotten an earlier try. Look the message up, and decide." };
    settlement.refused.push({ number: p.number, at: p.at, message: p.message, problem });
    return true;
  }

  /** stops reports whether a problem is the end of a numbered sender. */
  #stops(problem: Problem, p: PendingMessage): boolean {
    if (!this.#o.source) return false;
    return ["fenced", "unknown-epoch", "ended"].includes(problem.type) || (p.void === true && !triedAgain(problem));
  }

  async #settle(s: Settlement): Promise<void> {
    if (s.acknowledged.length === 0 && s.refused.length === 0) return;
    await this.#o.storage.settle(s).catch((e: unknown) => {
      throw new Stopped(e);
    });
    if (s.acknowledged.length > 0) this.#o.onAcknowledged?.(s.acknowledged);
    for (const r of s.refused) this.#o.onRefused?.(r);
  }

  /** epoch returns the epoch of a numbered sender. A new one is stored before any message is sent under it. */
  async #epoch(): Promise<number> {
    const { source, stream, storage, client } = this.#o;
    if (!source) return 0;
    const { epoch } = await storage.state();
    if (epoch !== 0) return epoch;
    try {
      const issued = await client.issueEpoch(stream, source, { group: this.#group(), signal: this.#stop.signal });
      await storage.setEpoch(issued);
      return issued;
    } catch (e) {
      if (e instanceof Problem && e.type === "invalid-message") throw new Stopped(e); // the stream is not numbered
      throw e;
    }
  }

  #wake(): void {
    this.#changes++;
    for (const wake of [...this.#wakers]) wake();
  }

  /**
   * changed waits for a change after some changes were seen, or for the signal. A tab may have been
   * killed before it reported its change, so the wait ends after some seconds.
   */
  async #changed(seen: number, signal: AbortSignal | undefined): Promise<void> {
    if (seen !== this.#changes) return;
    const done = new AbortController();
    const wake = () => done.abort();
    this.#wakers.add(wake);
    await pause(lostChange, signal ? AbortSignal.any([signal, done.signal]) : done.signal).catch(() => {});
    this.#wakers.delete(wake);
  }
}

/** triedAgain reports whether a line is to be tried again. One for which the caller has no right is: rights are given later. */
function triedAgain(problem: Problem): boolean {
  return problem.retryable || problem.status === 401 || problem.status === 403;
}

/** Ends a sender for good; its cause is the reason. */
class Stopped extends Error {
  constructor(reason: unknown) {
    super("stopped", { cause: reason });
  }
}

/** online waits before a retry: longer if the browser is offline, and until it is online again at most. */
async function online(wait: number, longest: number, signal: AbortSignal): Promise<void> {
  const offline = typeof navigator !== "undefined" && navigator.onLine === false;
  const back = new AbortController();
  const wake = () => back.abort();
  globalThis.addEventListener?.("online", wake);
  await pause(offline ? Math.max(wait, longest) : wait, AbortSignal.any([signal, back.signal])).catch(() => {});
  globalThis.removeEventListener?.("online", wake);
}
