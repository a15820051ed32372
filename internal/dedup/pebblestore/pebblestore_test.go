package pebblestore_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// A disk is the durable part of the stores that a test opens: a file system in memory that forgets
// unsynced writes.
type disk struct {
	now   func() time.Time
	known func(*testing.T, *pebble.DB) *presence.Filter
	files map[record.Store]*vfs.MemFS
	dbs   map[record.Store]*pebble.DB
}

func (d *disk) open(t *testing.T, fs *vfs.MemFS) record.Store {
	t.Helper()
	db, err := pebbledb.Open("data", &pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := pebblestore.New(db, pebblestore.Options{Now: d.now, Presence: d.known(t, db)})
	d.files[s], d.dbs[s] = fs, db
	return s
}

var long = flag.Bool("long", false, "make histories of two million operations")

func TestStore(t *testing.T) { storetest.Run(t, harness(unfiltered)) }

func TestStoreWithFilter(t *testing.T) { storetest.Run(t, harness(filtered)) }

func TestHistoriesAreLinearizable(t *testing.T) {
	storetest.Histories(t, harness(unfiltered), operations())
}

func TestHistoriesWithAFilterAreLinearizable(t *testing.T) {
	storetest.Histories(t, harness(refilled), operations())
}

func operations() int {
	if *long {
		return 2_000_000
	}
	return 10_000
}

func harness(known func(*testing.T, *pebble.DB) *presence.Filter) storetest.Harness {
	d := &disk{known: known, files: map[record.Store]*vfs.MemFS{}, dbs: map[record.Store]*pebble.DB{}}
	return storetest.Harness{
		Open: func(t *testing.T, now func() time.Time) record.Store {
			d.now = now
			return d.open(t, vfs.NewCrashableMem())
		},
		Reopen: func(t *testing.T, s record.Store) record.Store {
			return d.open(t, d.files[s].CrashClone(vfs.CrashCloneCfg{}))
		},
		Corrupt:     func(t *testing.T, s record.Store, key any) { corrupt(t, d.dbs[s], key) },
		CommitsDone: true, CommitsTogether: true,
	}
}

// corrupt flips one bit of a record.
func corrupt(t *testing.T, db *pebble.DB, key any) {
	t.Helper()
	dbKey := pebblestore.Key(key)
	value, closer, err := db.Get(dbKey)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), value...)
	flipped[rand.IntN(len(flipped))] ^= 1 << rand.IntN(8)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Set(dbKey, flipped, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}
