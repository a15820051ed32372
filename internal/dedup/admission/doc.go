// Package admission distinguishes new messages from duplicates, and keeps the tokens that it uses
// for this.
//
//	arrive     check a message against its stream, name it      arrival.go
//	admit      by its token, three proofs                       admit.go, fates.go
//	commit     the message's pending entry                      entry.go
//	hand over  held messages that failed or were refused        handover.go
//	skip       report numbers that did not arrive               gap.go
//	issue      tokens before their messages, note refusals      issuer.go
//	status     the state of a message, for people               status.go
//
// The engine admits numbered messages itself when it commits, by the record of their group.
//
// # Errors
//
// If a message is invalid, the error is a [*record.InvalidError] or [record.ErrNoStream]. If its
// token refuses it, the result is an outcome of the kind [record.Rejected], or a
// [*record.RefusedError] from functions that return no outcome.
//
// # Limits
//
// The package imports the standard library and package record only. It never marks a token done:
// the engine, the publisher and the relay do.
package admission
