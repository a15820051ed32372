// Package webhook is a destination that posts each delivery to a URL, signed as Standard Webhooks say (https://www.standardwebhooks.com).
//
// # Requests
//
// The body is the effect's, byte for byte, with its content type. The headers are
//
//	webhook-id, Idempotency-Key   the delivery's identity, the same however often it is sent; the second as a structured-field string
//	webhook-timestamp             Unix seconds of this try
//	webhook-signature             v1, HMAC-SHA256 of id, timestamp and body; left out where no secret is configured
//	once-stream, once-group,      where the delivery comes from: stream, group, its number there, and the id of the message that was
//	once-number, once-id          forwarded; those that are empty are left out
//
// and the effect's own headers, but for these names, names that HTTP forbids or that belong to one connection, and values that HTTP
// cannot carry. An identity that is not printable ASCII is sent percent-encoded behind a tilde; no identity starts with one.
//
// A secret is base64, with or without "whsec_" before it, as the receivers' libraries expect it.
//
// # Delivery
//
// At least once: the receiver remembers webhook-id to drop what comes again. A delivery is done when the answer is 2xx. Network
// errors, 408, 425, 429 and 5xx are tried again with exponential backoff and jitter as long as the budget of the Send lasts, not
// before the time that Retry-After names; anything else fails at once, redirects included, which are never followed. What failed is
// tried again with the next trigger. 410 Gone is final: this delivery and all later ones are refused, without a request, until the
// process is started anew.
//
// A destination is failing when a delivery failed so until the end of its Send's budget, and nothing else succeeded meanwhile. From then on one
// request at a time probes it, with growing pauses from half a second to half a minute and not before what Retry-After names; the Send
// that probes does not try again, and every other one fails at once, without a request, so that nobody waits for what does not answer. The first
// success ends that.
//
// Within a group the next delivery is posted only after the one before it was done; different groups, and deliveries without a number, run in parallel.
//
// # Limits
//
// Answers are read up to 64 KiB, to use the connection again, and not kept. A Retry-After of more than an hour counts as an hour. What Retry-After says
// holds for the whole destination; it, and that a destination is failing, are forgotten when the process ends.
package webhook
