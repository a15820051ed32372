// Package explore runs the real engine, functions and front door through every order of their steps, and every failure of each step, of small scenarios.
//
// What a worker does next depends on what it received and on what its calls were answered, and on nothing else. So a worker is a list of answers: it is run anew from the
// beginning, given those, and stopped at its next call. A state of the whole is the contents of the store, the queues, the bucket and the destinations, and such a list for
// each worker; it is visited once, however it was reached. The search is breadth first: the trace of what it finds is a shortest one. The method is that of explicit-state
// model checkers, such as TLC of TLA+, with the code itself in place of a model; running the code anew to find its next step is stateless search as in VeriSoft (Godefroid,
// POPL 1997).
//
//	scenario.go  what is explored, read from a file
//	parts.go     what stores, queues, buckets and destinations hold
//	call.go      one call of a port, and its answer
//	host.go      the ports, as a worker sees them; bucket.go has the last of them
//	run.go       workers, and the code that they run
//	world.go     the handler, the engine, and what no commit and no delivery may do
//	state.go     a state of the whole; delayed.go has when a delayed trigger comes
//	step.go      what may happen next
//	finish.go    what a worker says that it did
//	player.go    one order of steps, as a trace says
//	search.go    visiting all states; what never ends
//	rest.go      what holds when all is done
//	show.go      states and calls for people
//
// # What may happen
//
// At each call: it works; it fails before it was applied, or after; a list of deliveries fails in the middle, and of a list of marks, triggers, returns or dead letters any
// part is applied; it is reported as failed and is applied at any later time; time passes before its answer comes; the worker dies. A read of groups and tokens is one of
// groups and then one of tokens, with anything in between. Besides: any free worker receives anything that waits; the time of a delivery is over while its worker goes on,
// the queue delivers once more, and a late acknowledgement takes that away or does not; a worker runs out of time between two tries; a dead letter is put back; a trigger is
// delivered once more; time passes; records that have expired are deleted; a sweep starts. Each scenario says how often.
//
// Numbers that no small scenario reaches, such as how much one commit takes, are made small in a copy of the source (testdata/small.yaml), and the scenarios are explored
// with that too.
//
// # What must hold
//
// In every state: no commit overwrites another's change; no message is applied twice, none out of the order of its numbers; no number is skipped before its time, or while it is held; nothing is sent by an attempt that was not
// committed, nothing for the first time after its successor, and one identity never stands for two contents; nobody is told two different replies; nothing is acknowledged
// that is not applied, held, a dead letter or on the queue once more; nothing that was deleted is applied; no outcome has the reply of another attempt, or none where there
// is one; nothing may be forgotten while something is pending or held; no lease that runs is taken over; no commit holds a number and takes it out. Where nothing is left to do: every message is applied, or a dead
// letter where the scenario says that it may be one, and not both where it does not say that too; that a letter says skipped, gap or expired, or, with a group record, key-reuse, is true; every effect of it was sent to every destination, or is a dead letter, and every object published; nothing is
// pending or held; tokens say what is done, with its content, its reply and for long enough; the destinations know of skipped numbers; and after one sweep nothing is left
// over or staged. From every state an end can be reached without another fault.
//
// # Limits
//
// The store is the one in memory, with the semantics that the conformance suite demands of all. Workers are as many, and faults as few, as the scenario says. More triggers
// of one group than there are publishers are as good as one for each. A delayed trigger comes after whatever was at work when its sender ended, and may commit something to a group. What a worker does side by side, to several destinations or groups, it does in one order.
package explore
