// Package pebblequeue is a durable queue with the semantics of SQS, kept in the shared Pebble database.
//
// Messages, with their bodies, are records in the database; the order, what is hidden and what is ready is an index in memory that Open
// rebuilds. Many senders share one fsync: a sender's place in the order is decided under the lock, the wait for the disk is outside it.
//
// # Durability
//
// Send is durable when it returns, and no receiver sees a message before. SendOrdered does not wait: its messages are in the write-ahead log in
// front of everything written later, so a crash loses them only together with every later write of the database. Deletes and receive counts are
// written the same way and nobody waits for them: a crash that loses a delete brings the message again, which every consumer of an
// at-least-once queue must take, and a lost count makes a poison message come a few times more before it is dead-lettered.
//
// What was in flight when the process ended is ready again when the queue is opened: receipts do not outlive the process.
//
// # Errors
//
// [ErrClosed] after Close, [ErrNotInFlight] from ChangeVisibility, [*queue.InvalidError] for a message that no queue takes. A record that does not decode fails
// Open with the record's key.
//
// # Limits
//
// One queue of a name may be open in a database at a time. Messages do not expire. Two groups whose names have the same 64-bit hash, a chance of one in
// 10⁷ among a million groups, wait for one another. The index takes about 64 bytes a message, 140 where every message has a group of its own.
package pebblequeue
