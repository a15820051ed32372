package main

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestTheGarbageCollectorIsTunedUnlessTheEnvironmentDoesSo(t *testing.T) {
	const version2, version1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	before := debug.SetMemoryLimit(-1)
	percent := debug.SetGCPercent(100)
	defer func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percent) }()
	for _, c := range []struct {
		name, gogc, memlimit, file, text string
		limit                            int64 // of the memory, nine tenths of the container's
		reserve                          int
	}{
		{"no container", "", "", "sys/none", "", math.MaxInt64, reserveSize},
		{"a container without a limit", "", "", version2, "max\n", math.MaxInt64, reserveSize},
		{"an old container without a limit", "", "", version1, "9223372036854771712\n", math.MaxInt64, reserveSize},
		{"a large container", "", "", version2, "2000000000\n", 1_800_000_000, reserveSize},
		{"a large old container", "", "", version1, "2000000000\n", 1_800_000_000, reserveSize},
		{"a small container", "", "", version2, "500000000\n", 450_000_000, 0},
		{"an unreadable limit", "", "", version2, "much\n", math.MaxInt64, reserveSize},
		{"GOGC is set", "100", "", version2, "500000000\n", math.MaxInt64, 0},
		{"GOMEMLIMIT is set", "", "1GiB", version2, "2000000000\n", math.MaxInt64, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOGC", c.gogc)
			t.Setenv("GOMEMLIMIT", c.memlimit)
			debug.SetMemoryLimit(math.MaxInt64)
			debug.SetGCPercent(100)
			got := reserve(fstest.MapFS{c.file: {Data: []byte(c.text)}})
			if limit := debug.SetMemoryLimit(-1); len(got) != c.reserve || limit != c.limit {
				t.Errorf("reserve of %d bytes, limit %d; want %d and %d", len(got), limit, c.reserve, c.limit)
			}
			// The percentage belongs to the reserve: alone it would make the collector run more
			// often.
			if percent := debug.SetGCPercent(100); (percent == collectAt) != (c.reserve > 0) {
				t.Errorf("GOGC is %d beside a reserve of %d bytes", percent, c.reserve)
			}
		})
	}
}
