package pebbledb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/record"
)

func count(state []byte, id string) int {
	n := 0
	for x := range strings.SplitSeq(string(state), ",") {
		if x == id {
			n++
		}
	}
	return n
}

// TestEveryAcceptedMessageIsAppliedOnceInSpiteOfPowerFailures runs the engine on the
// embedded store and queues. At the end, each acknowledged message is in the state of its group
// once, and each effect of a message by key arrived under one identity. Numbered messages send
// nothing.
func TestEveryAcceptedMessageIsAppliedOnceInSpiteOfPowerFailures(t *testing.T) {
	seeds, lives := uint64(3), 12
	if testing.Short() {
		seeds, lives = 1, 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 8))
			w := &town{accepted: map[string]record.GroupKey{}, arrived: map[string]string{}}
			m, next := start(t, w, vfs.NewCrashableMem()), 0
			for range lives {
				next = m.offer(t, rng, next, 1+rng.IntN(40))
				disk := m.fail(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
				m.end(t)
				if rng.IntN(2) == 0 {
					tear(t, disk, rng)
				}
				m = start(t, w, disk)
			}
			m.drain(t)
			m.check(t)
			m.end(t)
		})
	}
}

// tear appends the beginning of a write that was in flight to the end of the log: random bytes.
func tear(t *testing.T, fs *vfs.MemFS, rng *rand.Rand) {
	t.Helper()
	log := lastLog(t, fs)
	data := read(t, fs, log)
	garbage := make([]byte, rng.IntN(5000))
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	write(t, fs, log, append(data, garbage...))
}

func lastLog(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	if len(names) == 0 {
		t.Fatal("there is no log")
	}
	return fs.PathJoin("data", slices.Max(names))
}

func read(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, info.Size())
	if n, err := f.ReadAt(data, 0); n != len(data) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
