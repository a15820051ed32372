package pebbledb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

// A crasher copies a disk at one operation, in the state after a power failure or a kill.
type crasher struct {
	disk *vfs.MemFS
	rng  *rand.Rand
	left atomic.Int64
	// acked is the number of keys acknowledged so far.
	acked atomic.Int64

	once sync.Once
	// after is the disk after the crash, and sure is the number of keys acknowledged before it.
	after *vfs.MemFS
	sure  int64
}

// MaybeError is called before each operation on the disk.
func (c *crasher) MaybeError(errorfs.Op) error {
	if c.left.Add(-1) < 0 {
		c.once.Do(c.crash)
	}
	return nil
}

// crash keeps the synced data and a part of the rest. A file that was removed without a sync of its
// folder may be there or not.
func (c *crasher) crash() {
	c.sure = c.acked.Load() // read before the copy, which may have more
	live, _ := c.disk.List("db")
	c.after = c.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 30, 70, 100}[c.rng.IntN(4)], RNG: c.rng})
	still := map[string]bool{}
	for _, name := range live {
		still[name] = true
	}
	names, _ := c.after.List("db")
	for _, name := range names {
		if !still[name] && c.rng.IntN(2) == 0 {
			_ = c.after.Remove(c.after.PathJoin("db", name))
		}
	}
}

func key(n int64) []byte { return fmt.Appendf(nil, "k%06d", n) }

// run opens the database and writes keys, beginning at number from, until the disk was copied.
func (c *crasher) run(from int64) error {
	c.acked.Store(from)
	options := small(errorfs.Wrap(c.disk, errorfs.InjectorFunc(c.MaybeError)))
	db, err := pebbledb.Open("db", options)
	if err != nil {
		return err
	}
	for n := from; c.left.Load() >= 0; n++ {
		if err := db.Set(key(n), make([]byte, 3000), pebble.Sync); err != nil {
			return errors.Join(err, db.Close())
		}
		c.acked.Store(n + 1)
	}
	if err := db.Close(); err != nil {
		return err
	}
	c.once.Do(c.crash)
	return nil
}

// TestNoCrashCausesARefusalOrLosesAnAcknowledgedWrite cuts the power, or kills the
// process, at any operation on the disk, most often while the database is being opened or changes
// its files.
func TestNoCrashCausesARefusalOrLosesAnAcknowledgedWrite(t *testing.T) {
	lives := 150
	switch {
	case *long:
		lives = 5000
	case testing.Short():
		lives = 30
	}
	rng := rand.New(rand.NewPCG(3, 3))
	disk, next, crashes := vfs.NewCrashableMem(), int64(0), 0
	for life := range lives {
		if rng.IntN(10) == 0 {
			disk, next = vfs.NewCrashableMem(), 0
		}
		c := &crasher{disk: disk, rng: rng}
		c.left.Store(rng.Int64N([]int64{80, 300, 1500}[rng.IntN(3)]))
		if err := c.run(next); err != nil {
			t.Fatalf("life %d: refused after a crash: %v", life, err)
		}
		crashes++
		disk = c.after
		next = c.there(t, life)
	}
	t.Logf("%d crashes", crashes)
}

// there returns the number of keys after a crash. It fails the test if one before the last is
// missing.
func (c *crasher) there(t *testing.T, life int) int64 {
	t.Helper()
	copied := c.after.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: c.rng})
	db, err := pebbledb.Open("db", small(copied))
	if err != nil {
		t.Fatalf("life %d: refused after a crash: %v", life, err)
	}
	n := int64(0)
	for ; ; n++ {
		_, closer, err := db.Get(key(n))
		if errors.Is(err, pebble.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = closer.Close()
	}
	if n < c.sure {
		t.Fatalf("life %d: %d keys were acknowledged, and %d are there", life, c.sure, n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}
