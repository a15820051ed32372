import { fromBase64 } from "./batch.js";
import { Problem, problemOf } from "./problem.js";
import { pause, type Answer } from "./retry.js";

/** One entry of the log of a group. Fields that do not apply are missing. */
export interface Entry {
  /** 1, 2, 3 … without holes. */
  number: number;
  /** The position after this entry. Store it together with what the entry causes, and continue there. */
  offset: string;
  /** `message`; `gap`: the numbers `from` to `to` of a source were skipped; `end`: the last entry. */
  kind: "message" | "gap" | "end";
  /** The key of the message. */
  id?: string;
  redelivery_of?: string;
  principal?: string;
  source?: string;
  epoch?: number;
  sequence?: number;
  from?: number;
  to?: number;
  parents?: number[];
  parents_missing?: boolean;
  via?: string[];
  late?: boolean;
  /** The hybrid time of the commit, which rises with the number. */
  time?: string;
  content_type?: string;
  headers?: Record<string, string>;
  /**
   * The parsed value if the content type is JSON, a string if it is another text, otherwise the
   * bytes. Whole numbers beyond 2^53 lose their last digits, as always with JSON.parse.
   */
  body?: unknown;
}

export interface TailOptions {
  /** The offset to continue after; `now` reads what is appended from now on. Defaults to the first entry that is kept. */
  after?: string;
  /** How many entries a request asks for. Defaults to 100, at most 1,000. */
  max?: number;
  /** How many seconds the server waits for an entry if there is none. Defaults to 20, which is also the most. */
  wait?: number;
  /** False ends the iteration at the present end of the log. Defaults to true: wait for the next entry. */
  follow?: boolean;
  /** Ends the iteration with an error. */
  signal?: AbortSignal;
}

interface Page {
  entries: (Entry & { body_base64?: string })[];
  next: string;
  end: boolean;
}

type Read = (query: URLSearchParams, wait: number, signal: AbortSignal | undefined, read: (a: Answer) => Page | Problem) => Promise<Page>;

/**
 * Reads the log of a group in order, from one offset on. It survives lost connections and restarts
 * of the server: it reads again after the last entry that it has, so it misses nothing and returns
 * nothing twice. It ends after the last entry of a log that has ended.
 *
 * It throws a problem of type `expired` if entries after the offset are gone: `problem.next` is the
 * offset at which a reader can go on if it accepts that.
 */
export class Tail implements AsyncIterable<Entry> {
  readonly #read: Read;
  readonly #minBackoff: number;
  readonly #options: TailOptions;
  #offset: string | undefined;

  /** @internal */
  constructor(read: Read, minBackoff: number, options: TailOptions) {
    this.#read = read;
    this.#minBackoff = minBackoff;
    this.#options = options;
    this.#offset = options.after;
  }

  /** The position after the last entry that was returned; with `after: "now"`, the end of the log once it is known. */
  get offset(): string | undefined {
    return this.#offset;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Entry, void, undefined> {
    const { signal, follow = true, max = 100, wait = 20 } = this.#options;
    for (;;) {
      const began = Date.now();
      // A wait that fails would begin again at a later end.
      const seconds = follow && this.#offset !== "now" ? Math.min(20, Math.ceil(wait)) : 0;
      const query = new URLSearchParams({ max: String(max) });
      if (this.#offset) query.set("after", this.#offset);
      if (seconds > 0) query.set("wait", String(seconds));
      const page = await this.#read(query, seconds * 1000, signal, readPage);
      for (const { body_base64, ...entry } of page.entries) {
        if (body_base64 !== undefined) entry.body = fromBase64(body_base64);
        this.#offset = entry.offset;
        yield entry;
      }
      this.#offset = page.next;
      if (page.end || (!follow && page.entries.length === 0)) return;
      // A server that is ending does not wait.
      if (page.entries.length === 0) await pause(Math.max(0, this.#minBackoff - (Date.now() - began)), signal);
    }
  }
}

/** readPage parses an answer. If it is not a whole page, it is a problem. */
function readPage(a: Answer): Page | Problem {
  const p = a.status === 200 ? a.json<Page>() : undefined;
  if (!Array.isArray(p?.entries) || typeof p.next !== "string" || typeof p.end !== "boolean") return problemOf(a);
  return p as Page;
}
