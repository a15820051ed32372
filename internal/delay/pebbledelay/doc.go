// Package pebbledelay keeps delayed messages in the shared Pebble database.
//
// The keys are ordered by due time, so the earliest items are the first records. Nothing is kept in
// memory for an item: a million delays cost disk only.
//
// # Durability
//
// Put is durable when it returns. The store of [Store.Ordered] does not wait for the disk: its
// items are in the write-ahead log before everything written later, so a crash loses them only
// together with all later writes to the database. Deletes are written in the same way; if a crash
// loses one, the item is moved to its queue a second time.
//
// # Errors
//
// A record that can't be decoded is an error that wraps [record.ErrCorrupt] and has its key. Due
// returns the other items with it. It reports such a record until an item behind it is due, and
// again when the store is opened the next time.
//
// # Limits
//
// A database may have only one open store. Open reads all keys, to count them.
package pebbledelay
