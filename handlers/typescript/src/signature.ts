import { fromBase64 } from "./body.js";

/** The headers of a signed request. */
export interface SignedHeaders {
  id: string | null;
  timestamp: string | null;
  signature: string | null;
}

/** At most so many secrets, and signatures of a request, are tried. */
const most = 8;

const encoder = new TextEncoder();

/** importSecrets returns keys for secrets. It throws a TypeError, without any part of a secret, if one is invalid. */
export async function importSecrets(secrets: string | readonly string[]): Promise<CryptoKey[]> {
  const list = (typeof secrets === "string" ? [secrets] : secrets).flatMap((s) => s.split(/\s+/)).filter(Boolean);
  if (list.length === 0 || list.length > most) throw new TypeError(`secret must have 1 to ${most} secrets, not ${list.length}`);
  return Promise.all(list.map(importSecret));
}

async function importSecret(secret: string): Promise<CryptoKey> {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = fromBase64(secret.replace(/^whsec_/, ""));
  } catch {
    throw new TypeError('secret must be base64, with or without "whsec_" before it');
  }
  if (bytes.length === 0) throw new TypeError("secret must not be empty");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

/**
 * verify checks the signature of a request as Standard Webhooks specify. It returns why the request
 * is refused, or undefined if one of the signatures was made with one of the keys, at most
 * tolerance seconds before or after now. The comparison is that of WebCrypto, in constant time.
 */
export async function verify(keys: CryptoKey[], headers: SignedHeaders, body: Uint8Array, tolerance: number, now = Date.now()): Promise<string | undefined> {
  const { id, timestamp, signature } = headers;
  if (!id || !timestamp || !signature) return "the headers webhook-id, webhook-timestamp and webhook-signature are needed";
  if (!/^\d{1,15}$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > tolerance) return `webhook-timestamp must be within ${tolerance} s of the time here`;
  const prefix = encoder.encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(prefix.length + body.length);
  signed.set(prefix);
  signed.set(body, prefix.length);
  for (const candidate of signature.split(" ").slice(0, most)) {
    const mac = macOf(candidate);
    if (!mac) continue;
    for (const key of keys) {
      if (await crypto.subtle.verify("HMAC", key, mac, signed)) return undefined;
    }
  }
  return "no signature in webhook-signature is one of this body with a secret of this handler";
}

/** macOf returns the bytes of a signature of version 1, or undefined. */
function macOf(signature: string): Uint8Array<ArrayBuffer> | undefined {
  if (!signature.startsWith("v1,")) return undefined;
  try {
    return fromBase64(signature.slice(3));
  } catch {
    return undefined;
  }
}
