import { identity, toBytes, type Message } from "./message.js";
import { Problem, problemFrom, problemOf, type ProblemDocument } from "./problem.js";
import type { Answer } from "./retry.js";

/** The result of one message of a batch: undefined if it is acknowledged, else why not. */
export type LineResult = Problem | undefined;

/** A message of a batch; `void` says that there is no message of this number. */
export type BatchMessage = Message & { void?: boolean };

/**
 * lineOf returns a message as a line of a batch. The server must get the body byte for byte: as it
 * is if it is JSON on one line, as a string if it is text, otherwise in base64.
 */
export function lineOf(m: BatchMessage): string {
  const fields: [string, unknown][] = [
    ["key", m.key], ["group", m.group], ["source", m.source], ["epoch", m.epoch], ["sequence", m.sequence],
    ["depends_on", m.dependsOn], ["parents", m.parents?.length ? m.parents : undefined], ["time", m.seen], ["end", m.end || undefined],
    ["not_before", m.notBefore?.toISOString()], ["void", m.void || undefined], ["content_type", m.contentType], ["headers", trimmed(m.headers)],
  ];
  const parts = fields.filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => `"${name}":${JSON.stringify(value)}`);
  const body = toBytes(m.body);
  if (body.length > 0) parts.push(bodyField(body, m.contentType ?? ""));
  return `{${parts.join(",")}}\n`;
}

/** trimmed removes the spaces around values, as HTTP does. */
function trimmed(headers: Record<string, string> | undefined): Record<string, string> | undefined {
  const list = Object.entries(headers ?? {});
  return list.length > 0 ? Object.fromEntries(list.map(([name, value]) => [name, value.replace(/^ +| +$/g, "")])) : undefined;
}

function bodyField(body: Uint8Array, contentType: string): string {
  const text = decode(body);
  const media = contentType.split(";")[0]!.trim().toLowerCase();
  const asJSON = media === "application/json" || media.endsWith("+json");
  if (text !== undefined && asJSON && isLine(text)) return `"body":${text}`;
  if (text !== undefined && contentType && !asJSON) return `"body":${JSON.stringify(text)}`;
  return `"body_base64":"${toBase64(body)}"`;
}

/** decode returns text, or undefined if the bytes are not UTF-8. */
export function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** isLine reports whether a text is JSON that stays the same as a part of a line. */
function isLine(text: string): boolean {
  if (/[\r\n]/.test(text) || text.trim() !== text) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let i = 0; i < bytes.length; i += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(i, i + 0x8000)));
  return btoa(parts.join(""));
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

interface Line {
  status: number;
  id?: string;
  problem?: ProblemDocument;
}

/**
 * readLines returns the result of each message, or the problem of the whole batch. An answer that
 * is not one whole line for each message is a problem without a type.
 */
export function readLines(a: Answer, messages: BatchMessage[]): LineResult[] | Problem {
  if (a.status !== 200 || !(a.headers.get("Content-Type") ?? "").startsWith("application/x-ndjson")) return problemOf(a);
  const lines = a.text().split("\n");
  if (lines.pop() !== "" || lines.length !== messages.length) return problemOf(a);
  const results: LineResult[] = [];
  for (const [i, text] of lines.entries()) {
    let line: Line;
    try {
      line = JSON.parse(text) as Line;
    } catch {
      return problemOf(a);
    }
    const refusal = line.status >= 400 ? problemFrom(line.problem, line.status) : undefined;
    if (!refusal && (line.status !== 202 || line.id !== identity(messages[i]!))) return problemOf(a);
    results.push(refusal);
  }
  return results;
}
