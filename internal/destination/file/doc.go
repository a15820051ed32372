// Package file is a destination that appends one line of JSON for each delivery to a file, once each, across kill -9 and power loss.
//
// # Why a line is neither lost nor doubled
//
// The store keeps, for each file, its committed length, and for what was written a mark. One writer for each file works in rounds:
//
//  1. leave out the deliveries that are marked,
//  2. write the lines of the others behind the committed length, in one call,
//  3. fsync the file,
//  4. put the new committed length and the marks in one batch, not synced,
//  5. answer the callers.
//
// The batch may stay unsynced because it shares its write-ahead log with everything that relies on it: the engine marks messages done and clears
// pending effects only after step 5, so those records come later in the same log, and a log is lost from its end only. So after a crash
// either the batch is there, and with it the lines, because step 3 came before it was handed to the log; or it is not there, and then no clear and
// no done mark is there either: the effects are still pending or their message is not acknowledged, what was written behind the
// committed length is cut off at the next Open, and they come again. Making the batch durable later, together with anybody's synced write, keeps
// this order; that is what makes it correct across power loss as well.
//
// A length is in the store, synced, before the first byte is written, so that a file without one is a file that was here before us: what it
// holds is kept, and lines are appended.
//
// # Marks
//
// Numbered deliveries of a group arrive in the order of their numbers, and a delivery is settled before the next one of its group is
// sent. One mark for each group, the last number written, therefore tells of all of them. A delivery without a number has a mark of its
// own under its identity. Marks are forgotten after a time, see [Options]. Two destinations that name the same file share one
// sender, and so an effect that goes to both is one line.
//
// # Errors
//
// A short write, a full disk or a failed fsync fails the round: all its deliveries get the error, the file is opened anew and cut
// back to its committed length. After a failed fsync nothing that the page cache says about the file is believed: bytes that were
// not recorded are cut off and written again.
//
// Every record has a format number and a checksum. A corrupt one is an error that wraps [record.ErrCorrupt], never one that is not there: a corrupt length keeps the
// file from being opened until somebody moves it away, a corrupt mark keeps its group's, or its identity's, deliveries from being sent, and those alone. That is so of
// records that the database gives back and that are not what was written. Where the database itself finds a table damaged and gives nothing, each round that looks there fails
// with all its deliveries: what else such a database has lost nobody knows.
//
// A file beside it, .NAME.owner, names the database that opened the file last, durably before its first line. Any other one that knows the file refuses it.
//
// # Limits
//
// The file belongs to one process and to one database; what others append is cut off. A reader that follows the file may see lines
// that a crash takes back and that come again, in another order; what lies before the committed length never changes. The marks know
// a file by its absolute path: moved together with its database, it is a new one. The network file system or disk must honour fsync.
package file
