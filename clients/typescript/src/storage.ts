import type { ProblemFields } from "./problem.js";

/** The part of a message that a sender stores. */
export interface StoredMessage {
  key?: string;
  group?: string;
  dependsOn?: Record<string, number>;
  parents?: number[];
  seen?: string;
  end?: boolean;
  notBefore?: Date;
  contentType?: string;
  headers?: Record<string, string>;
  body?: Uint8Array<ArrayBuffer>;
}

/** A message that is not acknowledged yet. */
export interface PendingMessage {
  /** 1, 2, 3 … in the order of the calls of `send`, without holes. */
  number: number;
  /** When it was stored, in milliseconds since 1970. */
  at: number;
  message: StoredMessage;
  /** True if the server refused the message, and only its number is left to be given up. */
  void?: boolean;
}

/** A message that the server will never accept, or that was too old to be sent. */
export interface RefusedMessage {
  number: number;
  at: number;
  message: StoredMessage;
  /** Why. The type `too-old` is the sender's own: see `maxAge`. */
  problem: ProblemFields;
}

/** Whose messages a storage holds. A storage that has others refuses to be opened. */
export interface StorageOwner {
  stream: string;
  /** The source of numbered messages; empty if the messages have keys. */
  source: string;
  /** The group of numbered messages; empty if the messages have keys. */
  group: string;
}

/** What became of some pending messages. */
export interface Settlement {
  /** Acknowledged: they are removed. */
  acknowledged: number[];
  /** Refused: they are moved to the list of refused messages. */
  refused: RefusedMessage[];
  /** True if the numbers of the refused messages stay pending, as void. */
  keepNumbers: boolean;
}

/**
 * Keeps the messages of one sender. Each method is a transaction: after a crash all of it is there,
 * or nothing. What a method has resolved for is durable.
 */
export interface SenderStorage {
  /** Opens the storage, and makes it if it is new. It rejects if another owner's messages are in it. */
  open(owner: StorageOwner): Promise<void>;
  /** Stores a message under the next number, unless `most` messages are pending: then it returns 0. */
  add(message: StoredMessage, most: number): Promise<number>;
  /** Returns the first pending messages in their order: at most `count`, and so many that their bodies have at most `bytes`, but one at least. */
  pending(count: number, bytes: number): Promise<PendingMessage[]>;
  settle(settlement: Settlement): Promise<void>;
  /** Returns the refused messages in their order. */
  refused(): Promise<RefusedMessage[]>;
  /** Removes a refused message. */
  forget(number: number): Promise<void>;
  /** Returns the last number that was given, 0 if there is none, and how many messages are pending. */
  state(): Promise<{ last: number; pending: number; epoch: number }>;
  setEpoch(epoch: number): Promise<void>;
  /** Runs `work` while nobody else runs with this storage, in other tabs too. It rejects if the signal is aborted before. */
  exclusive(signal: AbortSignal, work: () => Promise<void>): Promise<void>;
  /** Calls `changed` after each change, in other tabs too. It returns a function that ends this. */
  watch(changed: () => void): () => void;
  close(): Promise<void>;
}

/** The state of a storage in memory, with the rules that all storages share. */
export class Shelf {
  last = 0;
  epoch = 0;
  readonly pending = new Map<number, PendingMessage>();
  readonly refused = new Map<number, RefusedMessage>();

  settle(s: Settlement): void {
    for (const n of s.acknowledged) this.pending.delete(n);
    for (const r of s.refused) {
      this.refused.set(r.number, r);
      if (s.keepNumbers) this.pending.set(r.number, { number: r.number, at: r.at, message: {}, void: true });
      else this.pending.delete(r.number);
    }
  }

  first(count: number, bytes: number): PendingMessage[] {
    const list: PendingMessage[] = [];
    let size = 0;
    for (const p of this.pending.values()) {
      size += p.message.body?.length ?? 0;
      if (list.length === count || (list.length > 0 && size > bytes)) break;
      list.push(p);
    }
    return list;
  }

  listRefused(): RefusedMessage[] {
    return [...this.refused.values()].sort((a, b) => a.number - b.number);
  }
}

/** sameOwner throws if a storage belongs to another sender. */
export function sameOwner(stored: StorageOwner, own: StorageOwner): void {
  if (stored.stream !== own.stream || stored.source !== own.source || stored.group !== own.group) {
    const whose = `the stream ${JSON.stringify(stored.stream)}` + (stored.source ? `, the source ${JSON.stringify(stored.source)} and the group ${JSON.stringify(stored.group)}` : ", with keys");
    throw new Error(`the storage belongs to ${whose}`);
  }
}

/** Runs one piece of work at a time. */
export class Mutex {
  #tail: Promise<unknown> = Promise.resolve();

  async run(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#tail;
    let release = () => {};
    const mine = new Promise<void>((resolve) => (release = resolve));
    this.#tail = before.then(() => mine);
    try {
      await new Promise<unknown>((resolve, reject) => {
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        void before.then(resolve);
      });
      await work();
    } finally {
      release();
    }
  }
}

/** Keeps messages in memory: they are lost with the page or process. For tests. */
export class MemoryStorage implements SenderStorage {
  readonly #shelf = new Shelf();
  readonly #watchers = new Set<() => void>();
  readonly #mutex = new Mutex();
  #owner: StorageOwner | undefined;

  async open(owner: StorageOwner): Promise<void> {
    this.#owner ??= owner;
    sameOwner(this.#owner, owner);
  }

  async add(message: StoredMessage, most: number): Promise<number> {
    if (this.#shelf.pending.size >= most) return 0;
    const number = ++this.#shelf.last;
    this.#shelf.pending.set(number, { number, at: Date.now(), message });
    this.#changed();
    return number;
  }

  async pending(count: number, bytes: number): Promise<PendingMessage[]> {
    return this.#shelf.first(count, bytes);
  }

  async settle(s: Settlement): Promise<void> {
    this.#shelf.settle(s);
    this.#changed();
  }

  async refused(): Promise<RefusedMessage[]> {
    return this.#shelf.listRefused();
  }

  async forget(number: number): Promise<void> {
    this.#shelf.refused.delete(number);
    this.#changed();
  }

  async state(): Promise<{ last: number; pending: number; epoch: number }> {
    return { last: this.#shelf.last, pending: this.#shelf.pending.size, epoch: this.#shelf.epoch };
  }

  async setEpoch(epoch: number): Promise<void> {
    this.#shelf.epoch = epoch;
  }

  exclusive(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    return this.#mutex.run(signal, work);
  }

  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => void this.#watchers.delete(changed);
  }

  async close(): Promise<void> {}

  #changed(): void {
    for (const w of this.#watchers) w();
  }
}
