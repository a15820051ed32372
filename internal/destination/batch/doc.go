// Package batch sends deliveries to services that accept several in one request and return a result
// for each.
//
// # Order
//
// A request to an ordered destination holds at most one delivery of a group: otherwise, if the
// service accepted the second of two and failed the first, their order would be reversed. Other
// destinations keep no order, and a request holds as many as fit. In both cases no later delivery
// of a group is sent after one has failed for good.
//
// # Errors
//
// If an entry fails for a temporary reason, it is sent again, with growing pauses, up to three
// times in one Send. If a whole request fails, the SDK has retried it already: Send stops, because
// the problem concerns the destination, and the remaining deliveries get the same error. Only a
// request that is refused because of its content is split, so that one bad entry does not block the
// others. After any error but a refusal, a delivery may have been sent; it is sent again under the
// same identity.
package batch
