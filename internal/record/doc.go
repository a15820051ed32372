// Package record holds the words of the protocol as values: messages and what identifies them, the records that are kept about them, and the ports through which the
// engine reaches stores, queues, destinations and blobs.
//
//	message.go, identity.go  a message, its names, keys and fingerprint
//	stream.go, attempt.go    the kind of message it is, and a run of its handler
//	group.go, ranges.go      the record that a commit's condition is on
//	limits.go                what it remembers at most, and what it forgets
//	pending.go               what is committed and not yet published
//	token.go                 the record of one message identity
//	outcome.go, event.go     what became of a message, and what is worth counting
//	store.go, ports.go       what an engine needs around it
//
// # Errors
//
// An [InvalidError] says what is wrong with a message, a [RefusedError] that something will never be taken, a [RejectError] that a handler refused a message. Any error
// of a store's write that is not [ErrConflict] is ambiguous: the write may have landed.
//
// # Limits
//
// The package imports the standard library only and does no input or output.
package record
