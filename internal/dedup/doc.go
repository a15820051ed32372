// Package dedup makes at-least-once delivery behave as if it were exactly once. It admits each
// message one time, runs its handler on the state of its group, and commits the new state together
// with the message's effects in one conditional write.
//
// The protocol, in the order of the code; a step with a package name is in that package:
//
//	words   messages, records and ports                               package record
//	issue   tokens before their messages are queued, status           package admission, parts.go
//	batch   check the messages, sort them by group                    process.go, item.go
//	relay   messages that need no group record                        package relay
//	load    the groups of a batch, then the tokens of its messages    round.go
//	admit   distinguish new messages from duplicates, three proofs    package admission, hold.go
//	run     the handler, on a copy of the state in memory             run.go
//	ask     a batch handler: gather the messages that would run, call
//	        it once, and add the whole answer or nothing of it        batch.go
//	drain   run held messages that are next, hold the early ones      drain.go, hold.go
//	commit  one conditional write for each group; it marks tokens of
//	        messages without effects done, if the store can           commit.go
//	fence   make sure that a commit in doubt is never applied later   round.go
//	settle  mark tokens done, or trigger publishing                   settle.go
//	publish send the pending effects, mark done, clear                package outbox, parts.go
//	sweep   gaps, leftovers, lost triggers                            sweep.go
//	refuse  dead letters, and a trigger for a commit in flight        package admission, parts.go
//	forget  delete a one-time request                                 forget.go
//
// # Errors
//
// The fate of a message is a value, a [record.Outcome]; an error of a port becomes an outcome of
// the kind [record.Retry]. If a store write returns any error but [record.ErrConflict], it may or
// may not have been applied. The engine never undoes anything after such an error: it loads the
// group again. If the write is not there, the engine commits the group unchanged, so that the
// earlier write can no longer be applied, and only then decides from the loaded record.
package dedup
