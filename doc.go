// Package once makes at-least-once delivery behave as if it were exactly once: it commits the
// handler's results once for each logical message, however often the message is delivered, and
// publishes the handler's effects under identities that never change.
//
// There are three ways to use it, from the strongest to the easiest to add:
//
//   - A [System] runs handlers itself. [Handle] registers one for a stream; it changes the state of
//     the message's group and adds effects to its [Attempt], and all of that is committed in one
//     conditional write, or nothing is. Package embedded opens a system on the local disk, package
//     oncetest one in memory.
//   - The decorators [Lazy], [Eager] and [Leased] guard a handler that stores its state elsewhere.
//     They remember that a message is done, and its reply.
//   - [Middleware] does the same for an [net/http.Handler], by the Idempotency-Key header field.
//
// An attempt can also act later: [Attempt.SendAfter] delays an effect, and [Attempt.SetTimer] and
// [Attempt.Cancel] set and cancel timers of the group, whose messages its handler gets.
//
// # Errors
//
// A duplicate is an [Outcome], not an error. An error says that a message is not done:
// [ErrKeyReuse], [ErrFenced], [ErrReplyTooLarge], a [*LeasedError], the handler's own error, or an
// error of the store. If the store fails, no handler runs unprotected.
//
// # Limits
//
// Only the results in the attempt are effectively once. If a handler calls another service itself,
// it does so once for each attempt, and there may be several attempts: make such calls effects, or
// pass an idempotency key of principal, stream, group and id. Bodies are at most [MaxBody] bytes,
// those of replies and of entries in logs a quarter of it.
package once
