//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pebbledb

// Holder returns the id of the process that has the database in a folder open, or 0 if it is not
// known.
func Holder(string) int { return 0 }
