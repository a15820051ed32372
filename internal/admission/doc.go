// Package admission tells a new message from a duplicate, and keeps the tokens by which it does.
//
//	arrive     check a message against its stream, name it      arrival.go
//	admit      by its token, three proofs                       admit.go, fates.go
//	commit     what is kept of it until it is published         entry.go
//	hand over  held messages that did not go through            handover.go
//	skip       tell of numbers that did not come                gap.go
//	issue      tokens ahead of their messages, note refusals    desk.go
//	status     what became of a message, for people             status.go
//
// Numbered messages are admitted by the record of their group; the engine does that where it commits.
//
// # Errors
//
// What a message does wrong is a [*record.InvalidError], or [record.ErrNoStream]. What its token refuses is an outcome of the kind [record.Rejected], and a
// [*record.RefusedError] where there is no outcome to give.
//
// # Limits
//
// The package imports the standard library and the records only. It marks nothing done: that belongs to those who commit.
package admission
