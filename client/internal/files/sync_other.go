//go:build !linux

package files

import "os"

// SyncData waits until the content of a file is durable, and its size.
func SyncData(f *os.File) error { return f.Sync() }
