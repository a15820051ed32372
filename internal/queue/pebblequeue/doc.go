// Package pebblequeue is a durable queue with the semantics of SQS, kept in the shared Pebble
// database.
//
// Messages and their bodies are records in the database. Their order and state (ready, hidden,
// delayed) are an index in memory, which Open rebuilds. Concurrent senders share an fsync: a sender
// gets its place in the order under the lock, but waits for the disk outside it.
//
// # Durability
//
// Send is durable when it returns, and no receiver sees a message before that. SendOrdered does not
// wait: its messages are in the write-ahead log before everything written later, so a crash loses
// them only together with all later writes to the database. Deletes and receive counts are written
// in the same way. If a crash loses a delete, the message is redelivered, which every consumer of
// an at-least-once queue must handle. If it loses a count, a poison message is delivered a few more
// times before it is dead-lettered.
//
// [Queue.Reserve] lets a caller process a message of an idle group without the queue: the place
// that it takes keeps later messages of the group waiting, as a message in flight does.
//
// Messages that were in flight when the process ended are ready again when the queue is opened:
// receipts are invalid after a restart.
//
// # Errors
//
// [ErrClosed] after Close, [ErrNotInFlight] from ChangeVisibility, [*queue.InvalidError] for a
// message that breaks a rule. If a record can't be decoded, Open fails with the record's key.
//
// # Limits
//
// A database may have only one open queue of each name. Messages do not expire; [Queue.Trim] deletes
// those of a queue with a [Merger]. Two groups whose names have the same 64-bit hash, a
// chance of one in 10⁷ among a million groups, block each other.
// The index takes about 64 bytes a message, or 140 if every message has its own group;
// that of a queue with a [Merger] about 200.
package pebblequeue
