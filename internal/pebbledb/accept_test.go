package pebbledb_test

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

func TestAnOperatorWhoAcceptsTheLossContinuesAndSeesIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	places := 10
	if testing.Short() {
		places = 3
	}
	all := folders(t, rng)
	for _, age := range slices.Sorted(maps.Keys(all)) {
		f := all[age]
		files := kinds(t, f.fs)
		for _, kind := range slices.Sorted(maps.Keys(files)) {
			names := files[kind]
			for range places {
				fs := f.copy()
				did := harm(t, fs, fs.PathJoin("db", names[rng.IntN(len(names))]), rng)
				_, refusal := look(pebbledb.Open, fs, f.acked)
				if refusal == nil || !strings.Contains(refusal.Error(), "--accept-loss") {
					continue
				}
				var lost []string
				accepting := func(dir string, o *pebble.Options) (*pebble.DB, error) {
					return pebbledb.OpenAccepting(dir, o, func(d pebbledb.Damage) { lost = append(lost, d.String()) })
				}
				missing, err := look(accepting, fs, f.acked)
				if err != nil && !strings.Contains(err.Error(), "restore the data folder from a backup") {
					t.Errorf("%s %s: %s: not opened: %v", age, kind, did, err)
				}
				if missing > 0 && len(lost) == 0 {
					t.Errorf("%s: %d keys are missing, and nothing was said", did, missing)
				}
				if err != nil {
					continue
				}
				if _, err := look(pebbledb.Open, fs, nil); err != nil {
					t.Errorf("%s: refused after the loss was accepted (%v): %v", did, lost, err)
				}
			}
		}
	}
}

// unflushed is a folder after a kill with several logs whose records are in no table.
func unflushed(t *testing.T, rng *rand.Rand) folder {
	t.Helper()
	fs, w, flush := vfs.NewCrashableMem(), &writer{acked: map[string]string{}}, make(chan struct{})
	options := small(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-flush
		}
		return nil
	})))
	options.MemTableStopWritesThreshold = 100
	db, err := pebbledb.Open("db", options)
	if err != nil {
		t.Fatal(err)
	}
	w.db = db
	w.write(t, rng, 300, 1000)
	f := folder{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}), w.acked}
	close(flush)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAnAcceptedLossOfALogWhoseRecordsAreInTablesLosesNothing damages logs that Pebble keeps only
// to use their files again.
func TestAnAcceptedLossOfALogWhoseRecordsAreInTablesLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	disk, w := vfs.NewCrashableMem(), &writer{acked: map[string]string{}}
	db, err := pebbledb.Open("db", small(disk))
	if err != nil {
		t.Fatal(err)
	}
	w.db = db
	w.write(t, rng, 200, 500)
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	w.write(t, rng, 5, 1000)
	f := folder{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}), w.acked}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	logs := kinds(t, f.fs)["log"]
	if len(logs) < 2 {
		t.Fatalf("logs %q: there must be a later one", logs)
	}
	for range 10 {
		fs := f.copy()
		did := harm(t, fs, fs.PathJoin("db", logs[0]), rng)
		var lost []string
		accepting := func(dir string, o *pebble.Options) (*pebble.DB, error) {
			return pebbledb.OpenAccepting(dir, o, func(d pebbledb.Damage) { lost = append(lost, d.String()) })
		}
		missing, err := look(accepting, fs, f.acked)
		if err != nil || missing > 0 || len(lost) != 1 || !strings.Contains(lost[0], "nothing is lost") {
			t.Errorf("%s: %d keys are missing, %v; said %q", did, missing, err, lost)
		}
	}
}

// gap opens a folder and returns the first acknowledged key that is missing, and the first later
// one that is there.
func gap(t *testing.T, open func(string, *pebble.Options) (*pebble.DB, error), fs vfs.FS, acked map[string]string) (missing, there string, err error) {
	t.Helper()
	db, err := open("db", small(fs))
	if err != nil {
		return "", "", err
	}
	for _, key := range slices.Sorted(maps.Keys(acked)) {
		_, closer, err := db.Get([]byte(key))
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			missing = cmp.Or(missing, key)
			continue
		case err != nil:
			t.Fatal(err)
		case missing != "":
			there = cmp.Or(there, key)
		}
		_ = closer.Close()
	}
	return missing, there, db.Close()
}

// TestAfterAnAcceptedLossNoWriteIsThereWithoutTheEarlierOnes damages the earlier ones of several
// logs: a later write may depend on each of those before it. It also cuts the power while the loss
// is being accepted.
func TestAfterAnAcceptedLossNoWriteIsThereWithoutTheEarlierOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	f := unflushed(t, rng)
	logs := kinds(t, f.fs)["log"]
	if len(logs) < 4 {
		t.Fatalf("logs %q: there must be later ones", logs)
	}
	lossy, refused := 0, 0
	for range 30 {
		fs := f.copy()
		did := harm(t, fs, fs.PathJoin("db", logs[rng.IntN(len(logs)-1)]), rng)
		folder, err := fs.OpenDir("db")
		if err == nil {
			err = errors.Join(folder.Sync(), folder.Close()) // the damage survives the power failure
		}
		if err != nil {
			t.Fatal(err)
		}
		c := &crasher{disk: fs, rng: rng}
		c.left.Store(rng.Int64N(200))
		var lost []string
		accepting := func(dir string, o *pebble.Options) (*pebble.DB, error) {
			o.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(c.MaybeError))
			return pebbledb.OpenAccepting(dir, o, func(d pebbledb.Damage) { lost = append(lost, d.String()) })
		}
		missing, there, err := gap(t, accepting, fs, f.acked)
		if err != nil || there != "" {
			t.Fatalf("%s: %s is missing, and the later %s is there; said %q; %v", did, missing, there, lost, err)
		}
		if missing != "" {
			lossy++
		}
		c.once.Do(c.crash)
		if _, err := look(pebbledb.Open, fs, nil); err != nil {
			t.Errorf("%s: refused after the loss was accepted (%v): %v", did, lost, err)
		}
		missing, there, err = gap(t, pebbledb.Open, c.after, f.acked)
		if err != nil {
			refused++
			explained(t, did, err)
		}
		if there != "" {
			t.Fatalf("%s, then a crash: %s is missing, and the later %s is there", did, missing, there)
		}
	}
	t.Logf("%d of 30 lost writes; %d were refused again after the crash", lossy, refused)
	if lossy == 0 || refused == 0 || refused == 30 {
		t.Error("one case never happened")
	}
}
