package main

import (
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// reserveSize is the size of the reserve, in bytes.
	reserveSize = 128 << 20
	// collectAt is GOGC: by how many percent the heap grows between two runs of the garbage
	// collector.
	collectAt = 50
	// smallest is the memory of a container, in bytes, below which there is no reserve.
	smallest = 1 << 30
)

// reserve makes the garbage collector run less often while the heap is small, by allocating memory
// that is never touched and so takes no RAM. The collector runs when the heap has grown by
// [collectAt] percent since its last run, and the reserve is a part of the heap: at least 64 MB are
// allocated between two runs. Without it the live heap is a few megabytes, and the collector runs
// many times a second. A higher GOGC would do the same, and multiply a large heap too. The
// percentage is below the default of 100, so that there is less garbage beside full caches. The
// reserve lasts as long as the result.
//
// In a container reserve also sets the soft memory limit to nine tenths of the container's memory,
// so that garbage does not get the process killed. root is the root of the file system.
//
// If GOGC or GOMEMLIMIT is in the environment, reserve does nothing and returns nil.
func reserve(root fs.FS) []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	if limit, ok := containerMemory(root); ok {
		debug.SetMemoryLimit(limit / 10 * 9)
		if limit < smallest {
			return nil
		}
	}
	debug.SetGCPercent(collectAt)
	return make([]byte, reserveSize)
}

// containerMemory returns the memory limit of the container in bytes, and whether there is one that
// can be read.
func containerMemory(root fs.FS) (limit int64, ok bool) {
	for _, name := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		// version 1 writes the largest number of pages if there is no limit
		return limit, err == nil && limit > 0 && limit < 1<<60
	}
	return 0, false
}
