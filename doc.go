// Package once makes at-least-once delivery behave as if it were exactly once: it runs the handler of each logical message effectively once, however often
// the message is delivered, and publishes what the handler decided under identities that stay the same.
//
// There are three ways in, from the strongest to the easiest to add:
//
//   - A [System] runs handlers itself. [Handle] registers one for a stream; it changes the state of the message's group and adds effects to its [Attempt],
//     and all of that becomes real in one conditional write, or nothing does. Package embedded opens a system on the local disk, package oncetest one in memory.
//   - The decorators [Lazy], [Eager] and [Leased] guard a handler that keeps its state elsewhere. They remember that it is done and what it answered.
//   - [Middleware] does the same for an [net/http.Handler], by the Idempotency-Key header field.
//
// # Errors
//
// A duplicate is an [Outcome], not an error. An error says that a message is not done: [ErrKeyReuse], [ErrFenced], [ErrReplyTooLarge], a [*LeasedError], the
// handler's own, or that the store could not be asked. Nothing runs unprotected because the store is away.
//
// # Limits
//
// Only what goes through the attempt is effectively once. A handler that calls other services itself does so once for each attempt, and there can be more than
// one: hand such calls a key of their own, or make them effects. Bodies are at most [MaxBody] bytes.
package once
