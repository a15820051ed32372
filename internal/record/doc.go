// Package record defines the protocol's vocabulary as values: messages and their identities, the
// records kept about them, and the ports through which the engine reaches stores, queues,
// destinations and blobs.
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
