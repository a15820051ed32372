// Package filecursor writes the entries of a session to a file, in which each line ends with the
// number of its entry. So the work and the cursor are one write: each entry is in the file once,
// also after crashes of the process or the machine, and while an old consumer still runs.
//
//	err := filecursor.Consume(ctx, c, client.SessionOptions{Stream: "orders", Name: "a"}, "orders.jsonl",
//		filecursor.Options{}, func(line []byte, e *client.Entry) ([]byte, error) {
//			return append(line, e.Body...), nil
//		})
//
// # Format
//
// A line is the text of the caller, a tab, the life of the session, a slash, the number of the
// entry and a newline. A line without text passes entries that have none, such as dead letters. The
// first line has no text either: it names the session, its life and the number after which the file
// begins. The cursor is the number of the last whole line. `cut -f1` returns the texts if they have
// no tabs.
//
// The file belongs to one session. It must not be edited or truncated. To begin a new file, move
// the old one away while no consumer runs, and set [Options.From] to its last number once.
//
// # Durability
//
// The lines of a batch are written together and followed by one fdatasync (fsync on systems other
// than Linux), before the cursor is reported. A batch of more than 4 MiB is written in parts.
//
// Open removes the bytes that a crash has left after the last whole line. If the file ends so, and
// its last whole line is before the last entry that was reported as processed, Open fails instead:
// the disk has lost lines that were durable. A file that ends with a whole line before that entry
// is a copy from before, as a restored database is: the entries after its number are processed
// again.
//
// # Errors
//
// A [*client.LostCursorError] says that the file has no line of a session that has processed
// entries, and a [*client.SkipError] that [Options.From] would skip entries. A [*DamagedError] says
// that reported lines are missing, that the file is that of another session, or that it has other
// content. None of them changes the file.
//
// # Limits
//
// The file is locked while it is open, so all consumers of the session must run on one machine,
// with a local file system. The lock ends with its process; another consumer waits until then. The
// package needs a system with flock (Linux, macOS, BSD); on Windows opening fails.
package filecursor
