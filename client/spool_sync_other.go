//go:build !linux

package client

import "os"

// syncData waits until the content of a file is durable, and its size.
func syncData(f *os.File) error { return f.Sync() }
