// Documents and signed requests, as the server makes them.

import { createHmac } from "node:crypto";

export const secret = `whsec_${Buffer.from("a secret of at least 24 bytes").toString("base64")}`;
export const otherSecret = Buffer.from("another secret of 24 bytes").toString("base64");

/** call returns a call with messages, numbered from 1 on if they have no id. */
export function call(state, ...messages) {
  return {
    stream: "orders",
    group: "customer-7",
    version: 12,
    attempt: "attempt-1",
    state,
    messages: messages.map((m, i) => ({ id: `m-${i + 1}`, try: 1, accepted: "2026-11-27T05:00:00Z", content_type: "application/json", ...m })),
  };
}

export function sign(id, timestamp, body, key = secret) {
  const mac = createHmac("sha256", Buffer.from(key.replace(/^whsec_/, ""), "base64"));
  return `v1,${mac.update(`${id}.${timestamp}.`).update(body).digest("base64")}`;
}

/** signed returns the headers of a call. */
export function signed(body, { key = secret, id = "attempt-1", at = Date.now() / 1000 } = {}) {
  const timestamp = String(Math.floor(at));
  return { "Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": sign(id, timestamp, body, key) };
}

/** request returns the request of a call. */
export function request(document, options = {}) {
  const body = typeof document === "string" ? document : JSON.stringify(document);
  return new Request("https://handler.example/once", { method: "POST", body, headers: signed(body, options), ...options.init });
}
