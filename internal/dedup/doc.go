// Package dedup makes at-least-once delivery behave as if it were exactly once: it admits each message one time, runs its handler on the state of
// its group, and commits the new state together with the message's effects in one conditional write.
//
// The protocol, in the order of the code:
//
//	load    the groups of a batch, then the tokens of its messages   engine.go
//	admit   tell a new message from a duplicate, three proofs         admit.go
//	run     the handler, on a copy of the state in memory             attempt.go
//	commit  one conditional write for each group                      round.go, commit.go
//	drain   held messages whose turn has come                         hold.go
//	settle  mark tokens done, or trigger publishing                   settle.go
//	publish send the pending effects, mark done, clear                publish.go
//	sweep   gaps, leftovers, lost triggers                            sweep.go
//
// # Errors
//
// A message's fate is a value, an [Outcome]; errors of the ports surface as outcomes of the kind [Retry]. Any error of a store write that is not
// [ErrConflict] is ambiguous: the write may have landed. The engine never undoes anything after one; it loads again and decides from what it sees.
//
// # Limits
//
// The package imports the standard library only. It never acknowledges a delivery: its caller does, on the strength of an outcome that is not [Retry].
package dedup
