// Package webhook is a destination that posts each delivery to a URL, signed as Standard Webhooks
// specify (https://www.standardwebhooks.com).
//
// # Requests
//
// The body is the effect's, byte for byte, with its content type. The headers are
//
//	webhook-id, Idempotency-Key   the delivery's identity, the same for every copy; the second as a
//	                              structured-field string
//	webhook-timestamp             Unix seconds of this try
//	webhook-signature             v1, HMAC-SHA256 of id, timestamp and body; left out if no secret
//	                              is configured
//	once-stream, once-group,      the sending stream and group, the effect's number there, and the
//	once-number, once-id          id of the forwarded message; empty ones are left out
//
// and the effect's own headers, except these names, names that HTTP forbids or that belong to one
// connection, and values that HTTP can't carry. An identity that is not printable ASCII is sent
// percent-encoded after a tilde; no identity starts with one.
//
// A secret is base64, with or without the prefix "whsec_", as the receivers' libraries expect it.
// During a rotation there are two, with a space between them, and two signatures: a receiver takes
// a request that one of its own secrets verifies.
//
// # Delivery
//
// At least once: the receiver remembers webhook-id to drop duplicates. A delivery is done when the
// response is 2xx. After network errors, 408, 425, 429 and 5xx it is retried with exponential
// backoff and jitter until the budget of the Send is used up, but not before the time in
// Retry-After. After any other response it fails without a retry; redirects are never followed. A
// failed delivery is retried with the next trigger. 410 Gone is final: this delivery and all later
// ones are refused, without a request, until the process is restarted.
//
// A destination is failing if all tries of a delivery failed until the end of its Send's budget,
// and no other delivery succeeded meanwhile. From then on one request at a time probes it, with
// growing pauses from half a second to half a minute and not before the time in Retry-After. The
// Send that probes does not retry, and every other one fails without a request, so that no
// publisher waits for a destination that is down. The first success ends this.
//
// Within a group a delivery is posted only when the previous one is done; different groups, and
// deliveries without a number, are posted concurrently.
//
// # Limits
//
// Responses are read up to 64 KiB, to reuse the connection, and discarded. A Retry-After of more
// than an hour counts as an hour. Retry-After applies to the whole destination. It is forgotten
// when the process ends, and so is the failing state.
package webhook
