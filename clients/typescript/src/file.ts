/** Storage of a {@link Sender} in a folder, for Node.js. */
import { open, readFile, rename, type FileHandle } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { fromBase64, toBase64 } from "./batch.js";
import { codeOf, lockFolder } from "./lock.js";
import { Mutex, sameOwner, Shelf, type PendingMessage, type RefusedMessage, type SenderStorage, type Settlement, type StorageOwner, type StoredMessage } from "./storage.js";

/** A message as JSON: the body is in base64, and the time a text. */
type Written = Omit<StoredMessage, "body" | "notBefore"> & { body?: string; notBefore?: string };

/** One line of the file, as JSON behind its checksum. It has one of the parts. */
interface Line {
  /** How many bytes of the file were durable when the line was written. */
  synced: number;
  /** The first line: whose file it is, and the state without its messages. */
  begin?: { version: number; owner: StorageOwner; last: number; epoch: number };
  pending?: Omit<PendingMessage, "message"> & { message: Written };
  refused?: Omit<RefusedMessage, "message"> & { message: Written };
  settle?: Omit<Settlement, "refused"> & { refused: (Omit<RefusedMessage, "message"> & { message: Written })[] };
  forget?: number;
  epoch?: number;
}

type Part = Omit<Line, "synced">;

const version = 1;
/** A file of at least so many bytes, most of them about messages that are gone, is replaced by a new one. */
const slack = 1 << 20;

/**
 * Keeps messages in a file in a folder, to which it appends; each change is synced. One process at
 * a time can have the folder open. Never restore an older copy of a folder: its numbers are used
 * up.
 */
export class FileStorage implements SenderStorage {
  readonly #folder: string;
  readonly #watchers = new Set<() => void>();
  readonly #mutex = new Mutex();
  #shelf = new Shelf();
  #owner: StorageOwner = { stream: "", source: "", group: "" };
  #file: FileHandle | undefined;
  #release = async () => {};
  #size = 0;
  #synced = 0;
  /** The size at which the file is looked at for messages that are gone. */
  #threshold = slack;
  /** Lines that are not written yet, and who waits for them. */
  #waiting: { part: Part; resolve: () => void; reject: (reason: unknown) => void }[] = [];
  #writing: Promise<void> | undefined;
  #error: unknown;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async open(owner: StorageOwner): Promise<void> {
    if (this.#file) throw new Error("the storage is open");
    this.#release = await lockFolder(this.#folder);
    try {
      this.#owner = owner;
      await this.#load();
    } catch (e) {
      await this.close();
      throw e;
    }
  }

  async add(message: StoredMessage, most: number): Promise<number> {
    if (this.#shelf.pending.size + this.#adding >= most) return 0;
    const p: PendingMessage = { number: this.#shelf.last + 1, at: Date.now(), message };
    this.#shelf.last = p.number;
    this.#adding++;
    try {
      await this.#append({ pending: { ...p, message: written(message) } });
    } finally {
      this.#adding--;
    }
    this.#shelf.pending.set(p.number, p); // it may be sent from now on
    this.#tell();
    return p.number;
  }

  /** How many messages are being written. */
  #adding = 0;

  async pending(count: number, bytes: number): Promise<PendingMessage[]> {
    this.#check();
    return this.#shelf.first(count, bytes);
  }

  async settle(s: Settlement): Promise<void> {
    await this.#append({ settle: { ...s, refused: s.refused.map((r) => ({ ...r, message: written(r.message) })) } });
    this.#shelf.settle(s);
    await this.#shrink();
    this.#tell();
  }

  async refused(): Promise<RefusedMessage[]> {
    return this.#shelf.listRefused();
  }

  async forget(number: number): Promise<void> {
    this.#shelf.refused.delete(number); // before it is written: the file may be replaced meanwhile
    await this.#append({ forget: number });
    this.#tell();
  }

  async state(): Promise<{ last: number; pending: number; epoch: number }> {
    return { last: this.#shelf.last - this.#adding, pending: this.#shelf.pending.size, epoch: this.#shelf.epoch };
  }

  async setEpoch(epoch: number): Promise<void> {
    await this.#append({ epoch });
    this.#shelf.epoch = epoch;
  }

  exclusive(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    return this.#mutex.run(signal, work);
  }

  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => void this.#watchers.delete(changed);
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file?.close();
    this.#file = undefined;
    await this.#release();
    this.#release = async () => {};
  }

  #tell(): void {
    for (const w of this.#watchers) w();
  }

  #check(): void {
    if (this.#error !== undefined) throw this.#error;
    if (!this.#file) throw new Error("the storage is closed");
  }

  #path(): string {
    return join(this.#folder, "messages");
  }

  /** load reads the file, or makes it. */
  async #load(): Promise<void> {
    let content: Buffer;
    try {
      content = await readFile(this.#path());
    } catch (e) {
      if (codeOf(e) !== "ENOENT") throw e;
      await this.#replace();
      return syncFolder(dirname(resolve(this.#folder)));
    }
    const end = this.#read(content);
    this.#file = await open(this.#path(), "r+");
    // Lines of a process that was killed may not be durable yet; they must be before they are sent.
    await this.#file.truncate(end);
    await this.#file.sync();
    this.#size = this.#synced = end;
  }

  /**
   * read reads the lines, and returns where the whole ones end. A line that is damaged, because the
   * power was lost while it was written, ends them: nobody was told that it is stored. If a later
   * line says that it was durable, the file is damaged.
   */
  #read(content: Buffer): number {
    let at = 0;
    for (let n = 1; at < content.length; n++) {
      const end = content.indexOf("\n", at);
      const line = end < 0 ? undefined : decode(content.subarray(at, end));
      if (!line || (n === 1) !== (line.begin !== undefined)) {
        if (n === 1 || durable(content.subarray(at)) > at) throw new Error(`${this.#path()} is damaged in line ${n}`);
        return at;
      }
      this.#apply(line);
      at = end + 1;
    }
    if (at === 0) throw new Error(`${this.#path()} is empty`);
    return at;
  }

  #apply(line: Line): void {
    const { begin, pending, refused, settle, forget, epoch } = line;
    if (begin) {
      if (begin.version !== version) throw new Error(`the version of the storage is ${begin.version}, and this program knows ${version}`);
      sameOwner(begin.owner, this.#owner);
      this.#shelf.last = begin.last;
      this.#shelf.epoch = begin.epoch;
    }
    if (pending) {
      this.#shelf.pending.set(pending.number, { ...pending, message: unwritten(pending.message) });
      this.#shelf.last = Math.max(this.#shelf.last, pending.number);
    }
    if (refused) this.#shelf.refused.set(refused.number, { ...refused, message: unwritten(refused.message) });
    if (settle) this.#shelf.settle({ ...settle, refused: settle.refused.map((r) => ({ ...r, message: unwritten(r.message) })) });
    if (forget !== undefined) this.#shelf.refused.delete(forget);
    if (epoch !== undefined) this.#shelf.epoch = epoch;
  }

  /** append writes a line, and waits until it is durable. Lines that come meanwhile share one sync. */
  #append(part: Part): Promise<void> {
    this.#check();
    const durably = new Promise<void>((done, reject) => this.#waiting.push({ part, resolve: done, reject }));
    this.#writing ??= this.#write();
    return durably;
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      try {
        this.#check();
        const bytes = Buffer.from(lines.map((l) => encode({ synced: this.#synced, ...l.part })).join(""));
        await writeAll(this.#file!, bytes, this.#size);
        this.#size += bytes.length;
        await this.#file!.datasync();
        this.#synced = this.#size;
        for (const l of lines) l.resolve();
      } catch (e) {
        this.#error ??= e; // what is in the file now is known only when it is opened again
        for (const l of lines) l.reject(e);
      }
    }
    this.#writing = undefined;
  }

  /** shrink replaces the file if most of it is about messages that are gone. */
  async #shrink(): Promise<void> {
    if (this.#size < this.#threshold || this.#adding > 0 || this.#writing) return;
    if (this.#snapshot().length * 2 > this.#size) {
      this.#threshold = 2 * this.#size;
      return;
    }
    const old = this.#file;
    this.#writing = this.#replace().catch((e: unknown) => {
      this.#error ??= e;
    });
    await this.#writing;
    this.#writing = this.#waiting.length > 0 ? this.#write() : undefined;
    await old?.close();
    this.#check();
  }

  #snapshot(): string {
    const { last, epoch, pending } = this.#shelf;
    const parts: Part[] = [{ begin: { version, owner: this.#owner, last, epoch } }];
    for (const p of pending.values()) parts.push({ pending: { ...p, message: written(p.message) } });
    for (const r of this.#shelf.listRefused()) parts.push({ refused: { ...r, message: written(r.message) } });
    return parts.map((p) => encode({ synced: 0, ...p })).join("");
  }

  /** replace writes the state into a new file, which takes the place of the old one when it is durable. */
  async #replace(): Promise<void> {
    const bytes = Buffer.from(this.#snapshot());
    const temporary = `${this.#path()}.new`;
    const file = await open(temporary, "w+", 0o600);
    await writeAll(file, bytes, 0);
    await file.sync();
    await rename(temporary, this.#path());
    await syncFolder(this.#folder);
    this.#file = file;
    this.#size = this.#synced = bytes.length;
    this.#threshold = Math.max(slack, 2 * this.#size);
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
  }
}

/** syncFolder makes a new name durable. Windows can't, and need not. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function encode(line: Line): string {
  const text = JSON.stringify(line);
  return `${crc32(text).toString(16).padStart(8, "0")} ${text}\n`;
}

/** decode returns a line, or undefined if it is damaged. */
function decode(line: Buffer): Line | undefined {
  const text = line.subarray(9).toString();
  if (line.subarray(0, 9).toString() !== `${crc32(text).toString(16).padStart(8, "0")} `) return undefined;
  return JSON.parse(text) as Line;
}

/** durable returns how many bytes of the file were durable when the last readable line of a part of it was written. */
function durable(part: Buffer): number {
  let most = 0;
  for (let at = 0; ; ) {
    const end = part.indexOf("\n", at);
    if (end < 0) return most;
    most = Math.max(most, decode(part.subarray(at, end))?.synced ?? 0);
    at = end + 1;
  }
}

function written({ body, notBefore, ...rest }: StoredMessage): Written {
  return { ...rest, ...(body ? { body: toBase64(body) } : {}), ...(notBefore ? { notBefore: notBefore.toISOString() } : {}) };
}

function unwritten({ body, notBefore, ...rest }: Written): StoredMessage {
  return { ...rest, ...(body === undefined ? {} : { body: fromBase64(body) }), ...(notBefore ? { notBefore: new Date(notBefore) } : {}) };
}
