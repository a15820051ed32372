// Package lease guards handlers that the engine does not run: it lets a message's handler run at most once at a time, and remembers what it answered, with
// nothing but fenced conditional writes of the message's token.
//
// [Guard.Lazy] takes no lease, [Guard.Eager] takes one and does not extend it, [Guard.Leased] extends it while the handler runs.
//
// The fence is the token's (owner, epoch). The owner is unique to an attempt, and every takeover, extension and release raises the epoch; so a write that was
// decided on an older view of the token fails, however late it arrives. That is why a lease that was seen to have run out can't be taken over once its owner
// has extended it after all.
//
// # Errors
//
// Any error of a store write but record.ErrConflict is ambiguous: the write may have landed, or may still land. The guard then repeats the very same write: its
// condition, or the token that comes back with a conflict, tells by owner and epoch whether the first try landed. Nothing is undone on a guess: a claim whose
// fate stays unknown is left to run out.
//
// # Limits
//
// Leases are compared with the local clock; the clocks of machines that share a store must agree far better than a lease is long. A handler that runs on after
// its context has ended can run at the same time as its successor: the guard discards its result, but can't take back what it did.
package lease
