import type { EncodedBody } from "./document.js";

/** The media type and the headers of a body that a handler sends. */
export interface BodyOptions {
  /**
   * The media type. Defaults to text/plain for a string, application/octet-stream for bytes, and
   * application/json for all other values.
   */
  contentType?: string;
  /** Headers of the message. */
  headers?: Record<string, string>;
}

const encoder = new TextEncoder();

/** isJSON reports whether a media type is that of JSON. */
export function isJSON(contentType: string | undefined): boolean {
  const type = (contentType ?? "").split(";", 1)[0]!.trim().toLowerCase();
  return type === "application/json" || type.endsWith("+json");
}

/**
 * encodeBody returns a body as it is written in an answer. A string and bytes are sent as they are,
 * whatever their media type; every other value is sent as JSON. It throws a TypeError if a value
 * can't be written as JSON, or if a string can't be written in UTF-8.
 */
export function encodeBody(body: unknown, options: BodyOptions = {}): EncodedBody {
  const { contentType, headers } = options;
  const rest = headers && Object.keys(headers).length > 0 ? { headers } : {};
  if (body === undefined) return contentType ? { content_type: contentType, ...rest } : rest;
  if (typeof body === "string") {
    unicode(body, "the body");
    const content_type = contentType ?? "text/plain; charset=utf-8";
    if (isJSON(content_type)) return { content_type, ...rest, body_base64: toBase64(encoder.encode(body)) };
    return { content_type, ...rest, body };
  }
  if (body instanceof Uint8Array) return { content_type: contentType ?? "application/octet-stream", ...rest, body_base64: toBase64(body) };
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) throw new TypeError("a body of bytes must be a Uint8Array");
  const content_type = contentType ?? "application/json";
  const json = toJSON(body, "the body");
  if (isJSON(content_type)) return { content_type, ...rest, body: JSON.parse(json) };
  return { content_type, ...rest, body: json };
}

/** unicode throws a TypeError if a text has half of a surrogate pair, which UTF-8 does not have. */
export function unicode(text: string, name: string): void {
  if (loneSurrogate.test(text)) throw new TypeError(`${name} must be Unicode text: it has half of a surrogate pair`);
}

const loneSurrogate = /\p{Surrogate}/u;

/** readable returns a text for people without halves of surrogate pairs. */
export function readable(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}

/**
 * toJSON returns a value as JSON. It throws a TypeError if the value has none, or has a part that
 * JSON.stringify would replace without an error.
 */
export function toJSON(value: unknown, name: string): string {
  const json = JSON.stringify(value, (_, part: unknown) => {
    if (typeof part === "number" && !Number.isFinite(part)) throw new TypeError(`${name} must be a value that JSON has, and has the number ${part}`);
    if (part instanceof Map || part instanceof Set) throw new TypeError(`${name} must be a value that JSON has, and has a ${part instanceof Map ? "Map" : "Set"}`);
    return part;
  }) as string | undefined;
  if (json === undefined) throw new TypeError(`${name} must be a value that JSON has, not ${typeof value}`);
  return json;
}

/** fromBase64 returns the bytes of a base64 text. It throws if the text is not base64. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** toBase64 returns bytes as base64. */
export function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  // String.fromCharCode takes a limited number of arguments.
  for (let i = 0; i < bytes.length; i += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(i, i + 0x8000)));
  return btoa(parts.join(""));
}
