package pebbledb_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

var long = flag.Bool("long", false, "damage 200 places of each kind of file instead of a few, and cut the power more often")

// A writer writes keys and remembers the acknowledged ones.
type writer struct {
	db    *pebble.DB
	next  int
	acked map[string]string
}

// write writes n keys, each synced, with values of about the given size.
func (w *writer) write(t *testing.T, rng *rand.Rand, n, size int) {
	t.Helper()
	for range n {
		key := fmt.Sprintf("k%06d", w.next)
		value := make([]byte, rng.IntN(2*size)+1)
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		if err := w.db.Set([]byte(key), value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		w.acked[key] = string(value)
		w.next++
	}
}

// A survivor is a logger that records fatal errors in place of ending the process.
type survivor struct{ last atomic.Pointer[string] }

func (*survivor) Infof(string, ...any)  {}
func (*survivor) Errorf(string, ...any) {}
func (s *survivor) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.last.Store(&text)
}

func small(fs vfs.FS) *pebble.Options {
	return &pebble.Options{FS: fs, Logger: &survivor{}, MemTableSize: 64 << 10, MaxManifestFileSize: 2 << 10, CacheSize: 1 << 20}
}

// folders are database folders after a kill: one that was opened once, one that was restarted, and
// one with tables, several logs and manifests.
func folders(t *testing.T, rng *rand.Rand) map[string]folder {
	t.Helper()
	all := map[string]folder{}
	for name, starts := range map[string][]int{"new": {60}, "restarted": {60, 60}, "old": {300, 300, 300, 250}} {
		fs, w := vfs.NewCrashableMem(), &writer{acked: map[string]string{}}
		for i, n := range starts {
			db, err := pebbledb.Open("db", small(fs))
			if err != nil {
				t.Fatal(err)
			}
			w.db = db
			w.write(t, rng, n, 1000)
			killed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if fs = killed; i == len(starts)-1 {
				all[name] = folder{killed, maps.Clone(w.acked)}
			}
		}
	}
	return all
}

type folder struct {
	fs    *vfs.MemFS
	acked map[string]string
}

func (f folder) copy() *vfs.MemFS {
	return f.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

// kinds returns the names of the files of a folder by their kind.
func kinds(t *testing.T, fs vfs.FS) map[string][]string {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	all := map[string][]string{}
	for _, name := range names {
		kind := strings.TrimLeft(name, "0123456789")
		kind, _, _ = strings.Cut(strings.TrimPrefix(kind, "."), "-")
		if strings.HasPrefix(kind, "marker") {
			kind = "marker"
		}
		all[kind] = append(all[kind], name)
	}
	return all
}

// harm damages a file in one of three ways, and returns a description of it.
func harm(t *testing.T, fs vfs.FS, path string, rng *rand.Rand) string {
	t.Helper()
	data := read(t, fs, path)
	how := rng.IntN(3)
	if len(data) == 0 {
		how = 2
	}
	switch how {
	case 0:
		at, bit := rng.IntN(len(data)), byte(1)<<rng.IntN(8)
		data[at] ^= bit
		write(t, fs, path, data)
		return fmt.Sprintf("bit %#x of byte %d of %d of %s changed", bit, at, len(data), path)
	case 1:
		n := rng.IntN(len(data))
		write(t, fs, path, data[:n])
		return fmt.Sprintf("%s cut to %d of %d bytes", path, n, len(data))
	}
	if err := fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	return path + " removed"
}

// look opens a folder and compares it with the acknowledged keys. It returns the number of keys
// that are missing or wrong without an error, and the first error.
func look(open func(string, *pebble.Options) (*pebble.DB, error), fs vfs.FS, acked map[string]string) (missing int, err error) {
	options := small(fs)
	end := options.Logger.(*survivor)
	db, err := open("db", options)
	if err != nil {
		return 0, err
	}
	var failed error
	for key, want := range acked {
		value, closer, err := db.Get([]byte(key))
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			missing++
		case err != nil:
			failed = err
		default:
			if string(value) != want {
				missing++
			}
			_ = closer.Close()
		}
	}
	err = db.Close()
	if text := end.last.Load(); text != nil {
		return missing, fmt.Errorf("the process ends: %s", *text)
	}
	return missing, errors.Join(failed, err)
}

// TestDamageOfAnyFileIsRefusedOrLosesNothing damages, cuts and removes files after a kill.
func TestDamageOfAnyFileIsRefusedOrLosesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	places := 6
	switch {
	case *long:
		places = 200
	case testing.Short():
		places = 2
	}
	all := folders(t, rng)
	for _, age := range slices.Sorted(maps.Keys(all)) {
		f := all[age]
		files := kinds(t, f.fs)
		for _, kind := range slices.Sorted(maps.Keys(files)) {
			names := files[kind]
			refused, unread, whole := 0, 0, 0
			for range places {
				fs := f.copy()
				did := harm(t, fs, fs.PathJoin("db", names[rng.IntN(len(names))]), rng)
				missing, err := look(pebbledb.Open, fs, f.acked)
				switch {
				case missing > 0:
					t.Errorf("%s folder: %s: %d of %d acknowledged keys are missing, error %v", age, did, missing, len(f.acked), err)
				case err == nil:
					whole++
				case strings.HasPrefix(err.Error(), "open database"):
					refused++
					explained(t, did, err)
				default:
					unread++
					explained(t, did, err)
				}
			}
			t.Logf("%-9s folder, %-8s: %d refused, %d errors when read, %d lost nothing", age, kind, refused, unread, whole)
		}
	}
}

// explained checks that a refusal names the remedy.
func explained(t *testing.T, did string, err error) {
	t.Helper()
	if text := err.Error(); !strings.Contains(text, "db") || !strings.Contains(text, "restore the data folder from a backup") {
		t.Errorf("%s: the message does not say what to do: %v", did, err)
	}
}

// TestDamageOfALogIsSilentWithoutTheListOfSyncedFiles shows that Pebble itself does not find the
// damage above: the tests would fail if the list were not compared.
func TestDamageOfALogIsSilentWithoutTheListOfSyncedFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for age, f := range folders(t, rng) {
		logs := kinds(t, f.fs)["log"]
		for missing, tries := 0, 1; missing == 0; tries++ {
			if tries > 200 {
				t.Fatalf("%s folder: Pebble finds all damage", age)
			}
			fs := f.copy()
			harm(t, fs, fs.PathJoin("db", logs[len(logs)-1]), rng)
			missing, _ = look(pebble.Open, fs, f.acked)
		}
	}
}
