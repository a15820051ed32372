// Package dedup makes at-least-once delivery behave as if it were exactly once: it admits each message one time, runs its handler on the state of
// its group, and commits the new state together with the message's effects in one conditional write.
//
// The protocol, in the order of the code:
//
//	load    the groups of a batch, then the tokens of its messages    process.go
//	admit   tell a new message from a duplicate, three proofs          admit.go
//	run     the handler, on a copy of the state in memory              plan.go
//	drain   held messages whose turn has come                          hold.go
//	commit  one conditional write for each group                       commit.go
//	settle  mark tokens done, trigger publishing                       commit.go
//	publish send the pending effects, mark done, clear; or relay       publish.go
//	sweep   gaps, leftovers, lost triggers                             sweep.go
//	token   issue, delete and look up what is known of one identity    token.go
//
// Its words, records and ports are those of package record.
//
// # Errors
//
// A message's fate is a value, an [record.Outcome]; errors of the ports surface as outcomes of the kind [record.Retry]. Any error of a store write that is not
// [record.ErrConflict] is ambiguous: the write may have landed. The engine never undoes anything after one; it loads again and decides from what it sees.
//
// # Limits
//
// Besides package record the engine imports the standard library only. It never acknowledges a delivery: its caller does, on the strength of an outcome that is not [record.Retry].
package dedup
