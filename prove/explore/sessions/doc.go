// Package sessions runs the real code of consumer sessions through every order of the steps of a
// few consumers and operators, with lost and late writes.
//
//	scenario.go  who takes part, and how many faults there are; list.go has the scenarios
//	actor.go     consumers and operators, which call the real code
//	world.go     the stored records, the database of the consumers, and the rules for each write
//	search.go    visiting all states
//	recover.go   the rule that from every state all work can be finished
//
// The method is that of package explore: an actor is represented by the answers to its calls, and
// is run again from its beginning with those answers to find its next call. An actor that dies is
// one whose next call never comes, so that every state includes all deaths. A lease decides nothing
// here: everybody opens with [session.TakeNow].
//
// # Rules
//
// No entry is processed twice, nor processed and marked as a dead letter, and none is marked before
// its dead letter is on the queue. The effects of an entry are committed once, with its work. A
// number of a session never names two entries. A fence never falls. A pool ends only after all its
// entries are processed or dead letters. If the pool deals whole partitions, the entries of a
// partition are processed in order. From every state, new consumers of the open sessions can
// process all entries, and each sees the end.
//
// # Limits
//
// The logs are complete and ended from the beginning. Reads of records fail only with their actor.
package sessions
