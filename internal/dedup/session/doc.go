// Package session deals the log of a stream to named readers, each entry to exactly one of them.
//
// A session is a named reader, held by one consumer at a time. It is a group record in the reserved
// stream ~sessions. Its fence rises with every open, in every life of the name, and its cursor is
// the number of the last entry that was processed. A pool is a group record in the reserved stream
// ~pools. It deals the logs of the partitions of a stream out to sessions, in ranges. A session can
// also read the log of a single group; then there is no pool, and its numbers are those of the log.
//
// Every step is one conditional write of one record. Nothing is kept between calls, and nothing is
// locked, so any number of processes may serve the same sessions. A lease only says for how long
// another consumer should wait; it decides nothing.
//
// # The work and the cursor
//
// A consumer that keeps its work in a store of its own writes the cursor there, in the transaction
// of the work, and reports it by Commit. After Open it raises the fence in its store and reads its
// number in one statement; Read then continues after that number. If the result of such a
// transaction is unknown, the consumer opens again before anything else. If the result of Fail is
// unknown, it repeats Fail or opens again, and does not process the entry.
//
// # Errors
//
// A [*HeldError] says that another consumer holds the session; a [*FencedError] that another one
// has opened it since; a [*MovedError] that the cursor is elsewhere; an [*ExpiredError] that
// entries can't be read any more; an [*AheadError] that a number was never dealt. [ErrEnded] says
// that nothing is left for a new session, and [ErrRetired] that the session is closed. After any
// other error the write may or may not have been applied.
//
// # Limits
//
// Open and Retire can be repeated after an error. The effects of a commit are pending in the record
// of the session, and a publisher sends them as those of any other group. Their identities are the
// path of the record and a number, such as ~sessions/work/ann/7.
package session
