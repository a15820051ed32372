// Package filecursor writes the entries of a session to a file, in which each line ends with the
// number of its entry. So the work and the cursor are one write: each entry is in the file once, also
// after crashes of the process or the machine, and while an old consumer still runs.
//
//	err := filecursor.Consume(ctx, c, client.SessionOptions{Stream: "orders", Name: "a"}, "orders.jsonl",
//		filecursor.Options{}, func(line []byte, e *client.Entry) ([]byte, error) {
//			return append(line, e.Body...), nil
//		})
//
// # Format
//
// A line is the text of the caller, a tab, the life of the session, a slash, the number of the entry
// and a newline. A line without text passes entries that have none, such as dead letters. The cursor
// is the number of the last whole line. `cut -f1` returns the texts if they have no tabs.
//
// The file belongs to one session. It must not be edited or truncated. To begin a new file, move the
// old one away while no consumer runs, and set [Options.From] to its last number once.
//
// # Durability
//
// The lines of a batch are written together and followed by one fdatasync (fsync on systems other than
// Linux), before the cursor is reported. A batch of more than 4 MiB is written in parts. Lines that a
// crash has left unfinished are removed when the file is opened. If lines are missing that were
// reported as processed, opening fails instead.
//
// # Errors
//
// A [*client.LostCursorError] says that the file has no line of a session that has processed entries.
// A [*DamagedError] says that reported lines are missing, or that the file has other content.
//
// # Limits
//
// The file is locked while it is open, so all consumers of the session must run on one machine, with
// a local file system. The lock ends with its process; another consumer waits until then. The package
// needs a system with flock (Linux, macOS, BSD); on Windows opening fails.
package filecursor
