// Package file is a destination that appends one line of JSON for each delivery to a file, exactly
// once each, across kill -9 and power loss.
//
// # Why a line is neither lost nor doubled
//
// For each file the store keeps its committed length and a mark for the written deliveries. One
// writer for each file works in rounds:
//
//  1. leave out the deliveries that are marked,
//  2. write the lines of the others after the committed length, in one call,
//  3. fsync the file,
//  4. put the new committed length and the marks in one batch, not synced,
//  5. answer the callers.
//
// The batch need not be synced because all later records that depend on it share its write-ahead
// log: the engine marks messages done and clears pending effects only after step 5. These records
// follow in the same log, and a crash loses only the end of a log. So after a crash there are two
// cases:
//
//   - The batch is there. Then the lines are too, because step 3 came before the batch was written.
//   - The batch is not there. Then no clear and no done mark is there either: the effects are still
//     pending, or their message is not acknowledged. The next Open truncates the file to the
//     committed length, and the deliveries are sent again.
//
// A later synced write makes the batch durable in the same order, so this also holds for a power
// loss.
//
// A length is in the store, synced, before the first byte is written. So a file without a length
// existed before: its content is kept, and lines are appended.
//
// # Marks
//
// Numbered deliveries of a group arrive in the order of their numbers, and a delivery is settled
// before the next one of its group is sent. So one mark for each group is enough: the last number
// written. A delivery without a number has its own mark under its identity. So has a redriven one,
// because it arrives after later numbers. Marks expire, see [Options]. Two destinations that name
// the same file share one sender, so an effect that goes to both is one line.
//
// # Errors
//
// A short write, a full disk or a failed fsync fails the round: all its deliveries get the error,
// and the file is reopened and truncated to its committed length. After a failed fsync the content
// of the page cache is not trusted: bytes that were not recorded are truncated and written again.
//
// Every record has a format number and a checksum. If it is corrupt, the error wraps
// [record.ErrCorrupt]; it never reads as missing. If the length is corrupt, the file can't be
// opened until an operator moves it away. If a mark is corrupt, only the deliveries of its group or
// identity fail. If the database itself detects a damaged table, each round that reads there fails
// with all its deliveries, because such a database may have lost other records too.
//
// # What is never cut off
//
// A file next to it, .NAME.owner, names the database that opened the file last, durably before its
// first line, and has a length up to which that database was synced. Bytes after the committed
// length are truncated only if this file shows that a crash of this database left them. If another
// database wrote to the file, if this one is an older copy of itself, or if the file .NAME.owner is
// missing or damaged, Open returns an error that says what to do.
package file
