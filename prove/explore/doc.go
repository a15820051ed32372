// Package explore runs the real engine, functions and HTTP API through every order of their
// steps, and every failure of each step, of small scenarios.
//
// The next step of a worker depends only on its input and on the answers to its calls. So a worker
// is represented by a list of answers: it is run again from the beginning with those answers, and
// stopped at its next call. A state consists of the contents of the store, the queues, the bucket
// and the destinations, and such a list for each worker. It is visited once, however it is reached.
//
// The search is breadth first, so the first violation that it finds has a shortest trace. The
// method is that of explicit-state model checkers, such as TLC of TLA+, with the code itself in
// place of a model. Running the code again to find its next step is stateless search as in VeriSoft
// (Godefroid, POPL 1997).
//
//	scenario.go  a scenario, read from a file
//	parts.go     the contents of stores, queues, buckets and destinations
//	call.go      one call of a port, and its answer
//	log.go       the rules for logs; read.go has those for a reader
//	host.go      the ports of a worker; bucket.go has the last of them
//	numbers.go   the rules for numbers, applied or skipped; epoch.go has those for issued epochs
//	run.go       workers, and the code that they run
//	world.go     the handler, the engine, and the commits
//	rules.go     the rules for applied changes and for deliveries
//	initial.go   the contents at the start
//	timers.go    delayed effects, timers, their keeper, and the rules for them
//	state.go     a state; delayed.go decides when a delayed trigger is delivered
//	step.go      the possible next steps
//	restore.go   copies of the store, restores, and what targets do after them
//	finish.go    the results that a worker reports
//	player.go    one order of steps, given as a trace
//	search.go    visiting all states; states without an end
//	rest.go      the rules for states in which everything is done
//	show.go      states and calls as text
//
// # Possible events
//
// At each call: it works; it fails before it was applied, or after; a list of deliveries fails in
// the middle; of a list of marks, triggers, returns or dead letters any part is applied; it is
// reported as failed and is applied at any later time; time passes before its answer; the worker
// dies. A batch handler answers all messages of a call, or only the first ones. A read of groups
// and tokens is one read of groups and then one of tokens, with any other steps in between.
//
// Besides: any free worker receives any waiting message; the visibility time of a delivery ends
// while its worker continues, the queue redelivers, and a late acknowledgement removes that second
// delivery or does not; a worker runs out of time between two tries; a dead letter is redriven; a
// trigger is delivered once more; time passes; expired records are deleted; a sweep starts; an
// operator skips an effect; a reader reads the next page of a log. Each scenario sets how often.
// The time of a retry policy passes when nobody works, and so does that of a delayed effect or a
// timer. The real keeper moves what is due from the store of delayed messages to the queues.
//
// A copy of the store is taken; later the whole system is stopped, the store is put back to the
// copy, the configuration lists the restore, and all messages are sent again.
//
// Limits that no small scenario reaches, such as the size of a commit, are made small in a copy of
// the source (testdata/small.yaml), and the scenarios are explored with that copy too.
//
// # Rules
//
// In every state: no commit overwrites another's change; no message is applied twice, none out of
// the order of its numbers; each number that a source has passed is either applied or skipped,
// never both; no number is skipped while its message is held, nor before its time unless by a void
// message; no effect is sent by an attempt that was not committed, none for the first time after
// its successor unless it is a dead letter, and, with a retry policy, none before its predecessor
// is sent or a dead letter; one identity never stands for two contents; no two callers are given
// different replies; no message is acknowledged unless it is applied, held, a dead letter or in the
// queue once more; no deleted request is applied; an outcome never has the reply of another
// attempt, or lacks an existing one; no record may expire while effects are pending or messages
// held; no running lease is taken over; no commit holds a number and deletes it; no epoch is issued
// twice, and no message is accepted under an issued epoch if a newer one was issued before its
// request began. A log has an entry for each applied message of its group, in the order of the
// commits, and one for each range of skipped numbers, numbered from 1 without holes, with rising
// times, each after its parents unless a gap policy ended the wait. No timer takes effect before it
// is due, more than once, or after a commit that cancelled or replaced it; after each commit the
// record of a group has the timers that are set, and does not expire before they are due. No
// delayed effect is sent before it is due. A reader of a log gets the committed entries in order,
// each once; it misses one only if it has expired, and then is told so. A state that is kept for
// ever has the change of every applied message, also when all that can expire has expired.
//
// After a restore, messages that were applied since the copy may be applied again, by attempts of
// their own with effects of their own: a restore costs that. Receivers remember everything. None
// gets two effects under one identity, or one effect under two. A target whose effects are numbered
// takes the number after the last one, or number 1 of a later epoch: it drops nothing for another
// effect, and never waits for one that does not come. A reader that is further than the copy misses
// no entry that comes after the restore.
//
// When nothing is left to do: every message is applied, or is a dead letter if the scenario allows
// it, and both only if the scenario allows that too; the reason of a letter is true if it is
// skipped, gap, expired, or, with a group record, key-reuse; every effect was sent to every
// destination, or is a dead letter, and every object is published; nothing is pending or held;
// tokens show which messages are done, with their content and reply and for long enough; the
// destinations were notified of skipped numbers; every timer that was neither cancelled nor replaced
// has taken effect; no delayed message is left; and after one sweep nothing is left over or
// staged. From every state an end can be reached without another fault.
//
// # Limits
//
// The store is the one in memory, with the semantics that the conformance suite requires of all
// stores; a scenario says whether it marks tokens done in a commit. The scenario limits the numbers
// of workers and faults. More triggers of one group than there are publishers are treated as one
// for each publisher. A delayed trigger is delivered after every worker that was running when its
// sender ended, and that may commit to a group. Concurrent calls of one worker, to several
// destinations or groups, are explored in one order.
package explore
