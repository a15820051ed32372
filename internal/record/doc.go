// Package record defines the protocol's vocabulary as values: messages and their identities, the
// records kept about them, and the ports through which the engine reaches stores, queues,
// destinations and blobs.
//
//	message.go, identity.go  a message, its names, keys and fingerprint
//	stream.go, attempt.go    a kind of message, and one run of its handler
//	group.go, ranges.go      the group record, on which a commit is conditional
//	limits.go                bounds of the group record, and how it forgets
//	pending.go               committed effects that are not yet published
//	token.go                 the record of one message identity
//	outcome.go, event.go     the fate of a message, and events for metrics
//	store.go, ports.go       the engine's dependencies
//
// # Errors
//
// An [InvalidError] says which rule a message breaks, a [RefusedError] that a destination will
// never take a delivery, a [RejectError] that a handler refused a message. If a store's write
// returns any error but [ErrConflict], the write may or may not have been applied.
//
// # Limits
//
// The package imports the standard library and package clock only, and does no input or output.
package record
