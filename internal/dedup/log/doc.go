// Package log is the log of a group: the entries that its commits appended, numbered 1, 2, 3 …
// without holes.
//
// A commit writes its entries together with the group record, see [record.Commit.Append]. So a
// reader sees a commit as a whole or not at all, and nothing has to be published to it.
//
// # Errors
//
// An [*ExpiredError] says that the entries after a position can't be read any more, or belong to an
// earlier life of the group. An [*AheadError] says that a position is after the end of the log.
package log
