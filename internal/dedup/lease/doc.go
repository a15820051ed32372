// Package lease guards handlers that the engine does not run. It lets a message's handler run at
// most once at a time, and keeps its reply. It uses only fenced conditional writes of the message's
// token.
//
// [Guard.Lazy] takes no lease, [Guard.Eager] takes one and does not extend it, [Guard.Leased]
// extends it while the handler runs.
//
// The fence is the token's (owner, epoch). The owner is unique to an attempt, and every takeover,
// extension and release raises the epoch. So a write that is based on an older version of the token
// fails, however late it arrives. In particular, an attempt that saw a lease expire can't take it
// over if the owner has extended it in the meantime.
//
// # Errors
//
// If a store write returns any error but record.ErrConflict, the write may have been applied, or
// may be applied later. The guard then repeats the same write. If its condition fails, the owner
// and epoch of the stored token show whether the first try was applied. The guard never undoes a
// write on a guess: if the result of a claim stays unknown, its lease expires.
//
// # Limits
//
// Leases are compared with the local clock; the clocks of machines that share a store must differ
// by far less than a lease lasts. A handler that continues after its context has ended can run at
// the same time as its successor: the guard discards its result, but can't undo its side effects.
package lease
