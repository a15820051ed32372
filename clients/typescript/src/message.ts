/** One logical message. */
export interface Message {
  /** The message's stream. Required. */
  stream: string;
  /**
   * Identifies the message within its stream: at most 256 characters of printable ASCII. If it is
   * missing, `send` generates one, unless the message has a source: then its number identifies it.
   */
  key?: string;
  /** The unit of state and order. Defaults to the source, or to the key if there is no source. */
  group?: string;
  /** Source, epoch and sequence number the message: the sender's name, its incarnation, and 1, 2, 3 … */
  source?: string;
  epoch?: number;
  sequence?: number;
  /** By source, the last number that must be processed in the group before this message. */
  dependsOn?: Record<string, number>;
  /** The numbers of entries in the group's log that this message answers. At most 100. */
  parents?: number[];
  /** The `time` of the last log entry that the sender has read. */
  seen?: string;
  /** Ends the log of the group with this message. */
  end?: boolean;
  /**
   * Delays the message: it is processed at this time or later, at most 365 days ahead. Not for
   * numbered streams and streams with pools, and not together with `wait`.
   */
  notBefore?: Date;
  /** The media type of the body. Defaults to none. */
  contentType?: string;
  /** Headers that are part of the message. */
  headers?: Record<string, string>;
  /** The content, byte for byte; a string is encoded as UTF-8. Defaults to an empty body. */
  body?: string | Uint8Array;
}

/** The longest name, key or group, in bytes. */
export const maxName = 256;

const encoder = new TextEncoder();

/** toBytes returns a body as bytes. */
export function toBytes(body: string | Uint8Array | undefined): Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? encoder.encode(body) : new Uint8Array(body ?? []);
}

/**
 * headersOf returns the HTTP headers that describe a message. It throws a TypeError if a field is
 * invalid.
 */
export function headersOf(m: Message): Headers {
  check(m);
  const h = new Headers();
  const set = (name: string, value: string) => h.set(name, inBytes(value));
  if (m.key) set("Idempotency-Key", `"${m.key.replace(/["\\]/g, "\\$&")}"`);
  if (m.group) set("Once-Group", m.group);
  if (m.source) {
    set("Once-Source", m.source);
    set("Once-Sequence", String(m.sequence));
    if (m.epoch) set("Once-Epoch", String(m.epoch));
  }
  const depends = Object.entries(m.dependsOn ?? {});
  if (depends.length > 0) set("Once-Depends-On", depends.map(([source, n]) => `${dictionaryKey(source)}=${n}`).join(", "));
  if (m.parents?.length) set("Once-Parents", m.parents.join(", "));
  if (m.seen) set("Once-Time", m.seen);
  if (m.end) set("Once-End", "true");
  if (m.notBefore) set("Once-Not-Before", m.notBefore.toISOString());
  if (m.contentType) set("Content-Type", m.contentType);
  for (const [name, value] of Object.entries(m.headers ?? {})) set(`Once-Header-${name}`, value);
  return h;
}

/** check throws a TypeError that names the first invalid field of a message. An empty key is valid. */
export function check(m: Message): void {
  if (!m.stream) throw new TypeError("stream must not be empty");
  if (m.key && !/^[ -~]{1,256}$/.test(m.key)) {
    throw new TypeError(`key must be at most ${maxName} characters of printable ASCII`);
  }
  for (const [name, value] of [["group", m.group], ["source", m.source]] as const) {
    if (value && (encoder.encode(value).length > maxName || value.trim() !== value)) {
      throw new TypeError(`${name} must be at most ${maxName} bytes, without spaces around it`);
    }
  }
  if (m.notBefore && (Number.isNaN(m.notBefore.getTime()) || m.notBefore.getUTCFullYear() > 9999)) {
    throw new TypeError("notBefore must be a time that is at most 365 days ahead");
  }
  checkNumbers(m);
  for (const name of Object.keys(m.headers ?? {})) {
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || /^once-/i.test(name)) {
      throw new TypeError(`header ${JSON.stringify(name)} must have a name that is valid in HTTP and does not start with once-`);
    }
  }
  const texts = { group: m.group, source: m.source, seen: m.seen, "content type": m.contentType, ...m.headers };
  for (const [name, value] of Object.entries(texts)) {
    // eslint-disable-next-line no-control-regex
    if (value && /[\u0000-\u001f\u007f]/.test(value)) throw new TypeError(`${name} must not hold control characters`);
  }
}

function checkNumbers(m: Message): void {
  const depends = Object.values(m.dependsOn ?? {});
  if (!m.source) {
    if (m.sequence || m.epoch || depends.length > 0) {
      throw new TypeError("source must be given with a sequence, an epoch or dependencies");
    }
  } else if (!isNumber(m.sequence, 1)) {
    throw new TypeError("sequence must be a whole number from 1 on if a source is given");
  }
  if (m.epoch !== undefined && !isNumber(m.epoch, 0)) throw new TypeError("epoch must be a whole number from 0 on");
  if (!depends.every((n) => isNumber(n, 0))) throw new TypeError("dependencies must be whole numbers");
  if ((m.parents?.length ?? 0) > 100 || !(m.parents ?? []).every((n) => isNumber(n, 1))) {
    throw new TypeError("parents must be at most 100 numbers of entries, from 1 on");
  }
}

function isNumber(n: number | undefined, least: number): boolean {
  return n !== undefined && Number.isSafeInteger(n) && n >= least;
}

/** identity returns the message's id in a receipt: its key, or its number if it has none. */
export function identity(m: Message): string {
  return m.key || `${m.source}/${m.epoch ?? 0}/${m.sequence}`;
}

/**
 * inBytes returns a header's value for fetch, which takes one character for each byte: the server
 * reads headers as UTF-8.
 */
function inBytes(value: string): string {
  return Array.from(encoder.encode(value), (b) => String.fromCharCode(b)).join("");
}

/**
 * dictionaryKey returns a source as the key of a structured-field dictionary: a byte that a key
 * can't hold is an asterisk and two hexadecimal digits.
 */
function dictionaryKey(source: string): string {
  return Array.from(encoder.encode(source), (b, i) => {
    const c = String.fromCharCode(b);
    const allowed = i === 0 ? /[a-z]/ : /[a-z0-9_.-]/;
    return allowed.test(c) ? c : `*${b.toString(16).padStart(2, "0")}`;
  }).join("");
}

/**
 * newKey returns a version 7 UUID: it sorts by time. It works in pages without HTTPS too, where
 * crypto.randomUUID is missing.
 */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  let time = Date.now();
  for (let i = 5; i >= 0; i--) {
    bytes[i] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
