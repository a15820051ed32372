// Package batch sends deliveries to services that take several at once and answer for each.
//
// # Order
//
// At an ordered destination a request holds one delivery of a group at most: a service that takes the second of two and fails the first has turned them round. Elsewhere
// the destination keeps no order, and a request holds what fits. In both cases nothing more of a group is sent after one of it has failed for good.
//
// # Errors
//
// An entry that the service failed through no fault of the entry is sent again, with growing pauses, as often as Service.Tries says. A whole request that failed has been
// repeated by the SDK already: it ends the sending, because what is wrong concerns the destination, and what is left gets the same error. Only a request that is refused for
// what is in it is taken apart, so that one bad entry does not hold up its neighbours. Any error but a refusal leaves a delivery sent or not; it is sent again under the same
// identity.
package batch
