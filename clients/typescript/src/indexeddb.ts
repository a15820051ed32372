import { sameOwner, type PendingMessage, type RefusedMessage, type SenderStorage, type Settlement, type StorageOwner, type StoredMessage } from "./storage.js";

/** The record of a database that is about all of its messages. */
interface Meta {
  owner: StorageOwner;
  last: number;
  epoch: number;
}

type Stores = Record<"meta" | "pending" | "refused", IDBObjectStore>;

/**
 * Keeps messages in a database of the browser. All tabs of a site that use the same name share the
 * messages, and one of them sends. It needs Web Locks, which browsers have in pages over HTTPS and
 * on localhost.
 *
 * If several people use one browser, put the user into the name: messages are sent with the login
 * of the page that sends them. A browser may delete the databases of a site when the disk is full,
 * unless `navigator.storage.persist()` was granted.
 */
export class IndexedDBStorage implements SenderStorage {
  readonly #name: string;
  readonly #watchers = new Set<() => void>();
  #db: IDBDatabase | undefined;
  #channel: BroadcastChannel | undefined;

  constructor(name: string) {
    this.#name = `once:${name}`;
  }

  async open(owner: StorageOwner): Promise<void> {
    if (typeof indexedDB === "undefined" || !globalThis.navigator?.locks) {
      throw new Error("IndexedDBStorage needs IndexedDB and Web Locks: serve the page over HTTPS");
    }
    const request = indexedDB.open(this.#name, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("meta");
      request.result.createObjectStore("pending", { keyPath: "number" });
      request.result.createObjectStore("refused", { keyPath: "number" });
    };
    const db = await resultOf(request);
    db.onversionchange = () => db.close(); // somebody deletes the database
    this.#db = db;
    try {
      await this.#change(async ({ meta }) => {
        const stored = await metaOf(meta);
        if (stored) sameOwner(stored.owner, owner);
        else meta.put({ owner, last: 0, epoch: 0 } satisfies Meta, "meta");
      });
    } catch (e) {
      db.close();
      throw e;
    }
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = () => this.#tell();
  }

  add(message: StoredMessage, most: number): Promise<number> {
    return this.#change(async ({ meta, pending }) => {
      if ((await resultOf(pending.count())) >= most) return 0;
      const m = (await metaOf(meta))!;
      const number = m.last + 1;
      meta.put({ ...m, last: number } satisfies Meta, "meta");
      pending.add({ number, at: Date.now(), message } satisfies PendingMessage);
      return number;
    });
  }

  pending(count: number, bytes: number): Promise<PendingMessage[]> {
    return this.#transaction("readonly", async ({ pending }) => {
      const list: PendingMessage[] = [];
      const request = pending.openCursor();
      let size = 0;
      for (let cursor = await resultOf(request); cursor; cursor = await resultOf(request)) {
        const p = cursor.value as PendingMessage;
        size += p.message.body?.length ?? 0;
        if (list.length > 0 && size > bytes) break;
        list.push(p);
        if (list.length === count) break;
        cursor.continue();
      }
      return list;
    });
  }

  settle(s: Settlement): Promise<void> {
    return this.#change(async ({ pending, refused }) => {
      for (const n of s.acknowledged) pending.delete(n);
      for (const r of s.refused) {
        refused.put(r);
        if (s.keepNumbers) pending.put({ number: r.number, at: r.at, message: {}, void: true } satisfies PendingMessage);
        else pending.delete(r.number);
      }
    });
  }

  refused(): Promise<RefusedMessage[]> {
    return this.#transaction("readonly", ({ refused }) => resultOf(refused.getAll() as IDBRequest<RefusedMessage[]>));
  }

  forget(number: number): Promise<void> {
    return this.#change(async ({ refused }) => void refused.delete(number));
  }

  state(): Promise<{ last: number; pending: number; epoch: number }> {
    return this.#transaction("readonly", async ({ meta, pending }) => {
      const { last, epoch } = (await metaOf(meta))!;
      return { last, epoch, pending: await resultOf(pending.count()) };
    });
  }

  setEpoch(epoch: number): Promise<void> {
    return this.#change(async ({ meta }) => void meta.put({ ...(await metaOf(meta))!, epoch } satisfies Meta, "meta"));
  }

  async exclusive(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    await navigator.locks.request(this.#name, { signal }, work);
  }

  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => void this.#watchers.delete(changed);
  }

  async close(): Promise<void> {
    this.#channel?.close();
    this.#db?.close();
  }

  async #change<T>(work: (stores: Stores) => Promise<T>): Promise<T> {
    const result = await this.#transaction("readwrite", work);
    this.#channel?.postMessage("");
    this.#tell();
    return result;
  }

  #tell(): void {
    for (const w of this.#watchers) w();
  }

  /** transaction runs work, which awaits nothing but requests of its transaction, and waits until the result is durable. */
  async #transaction<T>(mode: IDBTransactionMode, work: (stores: Stores) => Promise<T>): Promise<T> {
    const tx = this.#db!.transaction(["meta", "pending", "refused"], mode, { durability: "strict" });
    const ended = new Promise<void>((resolve, reject) => {
      tx.oncomplete = () => resolve();
      tx.onabort = () => reject(tx.error ?? new Error("the transaction was aborted"));
    });

    const working = work({ meta: tx.objectStore("meta"), pending: tx.objectStore("pending"), refused: tx.objectStore("refused") });
    working.catch(() => {
      try {
        tx.abort();
      } catch {
        // it has ended
      }
    });
    const [worked] = await Promise.allSettled([working, ended]);
    if (worked.status === "rejected") throw worked.reason;
    await ended;
    return worked.value;
  }
}

function metaOf(store: IDBObjectStore): Promise<Meta | undefined> {
  return resultOf(store.get("meta") as IDBRequest<Meta | undefined>);
}

function resultOf<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
