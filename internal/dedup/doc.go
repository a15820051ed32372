// Package dedup makes at-least-once delivery behave as if it were exactly once: it admits each message one time, runs its handler on the state of
// its group, and commits the new state together with the message's effects in one conditional write.
//
// The protocol, in the order of the code; a package name says that a step has a package of its own beside this one:
//
//	words   messages, records and ports                               package record
//	issue   tokens ahead of their messages, status                    package admission, parts.go
//	batch   check the messages, sort them by group                    process.go, item.go
//	relay   messages that need no group record                        package relay
//	load    the groups of a batch, then the tokens of its messages    round.go
//	admit   tell a new message from a duplicate, three proofs         package admission, hold.go
//	run     the handler, on a copy of the state in memory             plan.go
//	drain   held messages whose turn has come, hold the rest          hold.go
//	commit  one conditional write for each group                      commit.go
//	fence   keep an earlier commit, in doubt, from being applied      round.go
//	settle  mark tokens done, or trigger publishing                   settle.go
//	publish send the pending effects, mark done, clear                package outbox, parts.go
//	sweep   gaps, leftovers, lost triggers                            sweep.go
//	refuse  dead letters, and a trigger for what may yet commit       package admission, parts.go
//	forget  delete a one-time request                                 forget.go
//
// # Errors
//
// A message's fate is a value, a [record.Outcome]; errors of the ports surface as outcomes of the kind [record.Retry]. Any error of a store write that is
// not [record.ErrConflict] is ambiguous: the write may have landed. The engine never undoes anything after one; it loads again, and where the write
// is not there it commits the group unchanged, so that the write can't be applied any more, before it decides from what it sees.
//
// # Limits
//
// The package imports the standard library and its siblings record, admission, relay and outbox only, which do the same. It never acknowledges a delivery: its caller
// does, on the strength of an outcome that is not [record.Retry].
package dedup
