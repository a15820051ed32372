package presence

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const prefix = 'k'

// small is the size of a filter that a test can fill.
var small = size{first: 64, most: 3}

func openDB(t *testing.T, fs vfs.FS) *pebble.DB {
	t.Helper()
	db, err := pebble.Open("data", &pebble.Options{FS: fs, MemTableSize: 64 << 10, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) { panic(silent{}) }

// filled returns a filter of a database that answers.
func filled(t *testing.T, db *pebble.DB, limit size) *Filter {
	t.Helper()
	f := New(db, prefix)
	f.size = limit
	if err := f.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func key(i uint64) []byte { return binary.BigEndian.AppendUint64([]byte{prefix}, i) }

// write commits a change of keys.
func write(f *Filter, change func(b *pebble.Batch, key []byte) error, keys ...uint64) error {
	b := f.db.NewBatch()
	for _, i := range keys {
		if err := change(b, key(i)); err != nil {
			return err
		}
	}
	return errors.Join(f.Commit(b, pebble.NoSync), b.Close())
}

func set1(b *pebble.Batch, key []byte) error    { return b.Set(key, nil, nil) }
func delete1(b *pebble.Batch, key []byte) error { return b.Delete(key, nil) }

// exist checks that no key in the database is reported absent, and returns their number.
func exist(t *testing.T, f *Filter) (n int) {
	t.Helper()
	it, err := f.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n++
		if f.Absent(it.Key()) {
			t.Fatalf("%x exists and is reported absent", it.Key())
		}
	}
	return n
}

// absent counts keys from a number on that are reported absent.
func absent(f *Filter, from, n uint64) (found int) {
	for i := range n {
		if f.Absent(key(from + i)) {
			found++
		}
	}
	return found
}

func TestNoKeyThatExistsIsReportedAbsentDuringConcurrentCommitsFillsAndCrashes(t *testing.T) {
	const writers, keys = 4, 2000
	fs := vfs.NewCrashableMem()
	db := openDB(t, fs)
	for crash := range uint64(4) {
		f := New(db, prefix)
		f.size = small
		ctx, cancel := context.WithCancel(t.Context())
		var filling, writing sync.WaitGroup
		filling.Go(func() {
			for ctx.Err() == nil {
				if err := f.Fill(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		for w := range uint64(writers) {
			writing.Go(func() {
				rng := rand.New(rand.NewPCG(crash, w))
				mine := map[uint64]bool{}
				for range keys {
					i := rng.Uint64N(keys)*writers + w
					change := set1
					if mine[i] = rng.IntN(3) > 0; !mine[i] {
						change = delete1
					}
					if err := write(f, change, i, 1<<40+i*1000+crash); err != nil {
						t.Error(err)
					}
					for i, set := range mine {
						if set && f.Absent(key(i)) {
							t.Errorf("%d was committed and is reported absent", i)
						}
						break // one of them, by the order of the map
					}
				}
			})
		}
		writing.Wait()
		cancel()
		filling.Wait()
		exist(t, f)
		fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(crash, 9))})
		db = openDB(t, fs)
		if n := exist(t, filled(t, db, small)); n == 0 {
			t.Error("no key survived: this test tests nothing")
		}
	}
}

func TestNothingIsAbsentBeforeAFillIsComplete(t *testing.T) {
	f := New(openDB(t, vfs.NewMem()), prefix)
	var unknown *Filter
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Absent(key(1)) || unknown.Absent(key(1)) {
		t.Error("a filter without keys reports one absent")
	}
	if err := f.Fill(cancelled); !errors.Is(err, context.Canceled) || f.Absent(key(1)) {
		t.Errorf("a cancelled fill returns %v; key absent: %v", err, f.Absent(key(1)))
	}
	if err := f.Fill(t.Context()); err != nil || !f.Absent(key(1)) {
		t.Errorf("a complete fill returns %v; key absent: %v", err, f.Absent(key(1)))
	}
}

func TestAFillWaitsForCommitsThatDidNotAddTheirKeysToIt(t *testing.T) {
	for name, before := range map[string]*epoch{"of the first fill": {}, "of the fill before": {filling: newTestSet(t)}} {
		t.Run(name, func(t *testing.T) {
			f := New(openDB(t, vfs.NewMem()), prefix)
			f.epoch.Store(before)
			committing := f.enter()
			done := make(chan error, 1)
			go func() { done <- f.Fill(t.Context()) }()
			for committing.commits.TryRLock() { // until the fill waits
				committing.commits.RUnlock()
				select {
				case err := <-done:
					t.Fatalf("the fill did not wait: %v", err)
				default:
					runtime.Gosched()
				}
			}
			if err := f.db.Set(key(1), nil, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			committing.commits.RUnlock()
			if err := <-done; err != nil || f.Absent(key(1)) {
				t.Errorf("the fill returns %v; key absent: %v", err, f.Absent(key(1)))
			}
		})
	}
}

func TestACommitDoesNotJoinAnEpochThatHasEnded(t *testing.T) {
	f := New(openDB(t, vfs.NewMem()), prefix)
	ended := f.epoch.Load()
	if err := f.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.join(ended) {
		t.Error("the commit would add its key to no set")
	}
}

func newTestSet(t *testing.T) *set {
	t.Helper()
	s, err := newSet(small)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A commit that fails may have been applied: Pebble makes a batch visible before its log is synced.
func TestTheKeyOfAFailedCommitExists(t *testing.T) {
	failing := false
	db, err := pebble.Open("data", &pebble.Options{Logger: silent{}, FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing && filepath.Ext(op.Path) == ".log" && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			return errors.New("disk failed")
		}
		return nil
	}))})
	if err != nil {
		t.Fatal(err)
	} // never closed: after such an error, Close would wait forever
	f := filled(t, db, small)
	failing = true
	func() {
		defer func() { _ = recover() }()
		b := db.NewBatch()
		err := errors.Join(set1(b, key(1)), f.Commit(b, pebble.Sync))
		t.Errorf("the commit did not fail: %v", err)
	}()
	if _, closer, err := db.Get(key(1)); err != nil {
		t.Errorf("the failed commit was not applied, so this test tests nothing: %v", err)
	} else {
		_ = closer.Close()
	}
	if f.Absent(key(1)) {
		t.Error("the key of a commit that was applied is reported absent")
	}
}

func TestAFullFilterReportsFewerKeysAbsentAndDoesNotGrow(t *testing.T) {
	f := filled(t, openDB(t, vfs.NewMem()), small)
	capacity, written := uint64(64*(1+2+4)*64/bitsPerKey), uint64(0)
	for _, c := range []struct {
		fill        float64 // of the capacity
		least, most int     // absent keys of 10,000
	}{{0.1, 9_800, 10_000}, {1, 9_200, 9_990}, {2, 7_000, 9_500}, {20, 0, 10}} {
		for ; written < uint64(c.fill*float64(capacity)); written++ {
			if err := write(f, set1, written); err != nil {
				t.Fatal(err)
			}
		}
		exist(t, f)
		if n := absent(f, 1<<50, 10_000); n < c.least || n > c.most {
			t.Errorf("%.1f times full: %d of 10,000 new keys are absent, want %d to %d", c.fill, n, c.least, c.most)
		}
	}
	if layers := *f.epoch.Load().answering.layers.Load(); len(layers) != small.most {
		t.Errorf("%d layers", len(layers))
	}
}

func TestKeysOfOtherPrefixesAreNotAdded(t *testing.T) {
	f := filled(t, openDB(t, vfs.NewMem()), small)
	if err := write(f, func(b *pebble.Batch, _ []byte) error { return b.Set([]byte("x"), nil, nil) }, 1); err != nil {
		t.Fatal(err)
	}
	if n := keysOf(*f.epoch.Load().answering.layers.Load()); n != 0 {
		t.Errorf("%d keys", n)
	}
}

func TestDeletedKeysAreForgottenWhenTheyAreMostKeys(t *testing.T) {
	f := New(openDB(t, vfs.NewMem()), prefix)
	f.size = small
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	await(func() bool { return f.Absent(key(0)) })
	for i := range uint64(2000) {
		if err := write(f, set1, i); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(1500) {
		if f.Absent(key(i)) {
			t.Fatalf("%d is absent before it was deleted", i)
		}
		if err := write(f, delete1, i); err != nil {
			t.Fatal(err)
		}
	}
	// The filter may have been filled again at any time since about 1,000 keys were deleted. Then it
	// forgot those, except for its false positives.
	await(func() bool { return absent(f, 0, 1500) > 750 })
	exist(t, f)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func await(what func() bool) {
	for !what() {
		runtime.Gosched()
	}
}

func TestAFillFindsAllKeysOfAllPrefixes(t *testing.T) {
	db := openDB(t, vfs.NewMem())
	b := db.NewBatch()
	for i := range uint64(2*scanChunk + 10) {
		if err := set1(b, key(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(b.Set([]byte("a1"), nil, nil), b.Set([]byte("z1"), nil, nil), b.Commit(pebble.NoSync)); err != nil {
		t.Fatal(err)
	}
	f := New(db, 'a', prefix, 'z')
	if err := f.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := exist(t, f); n != 2*scanChunk+10 || f.Absent([]byte("a1")) || f.Absent([]byte("z1")) || !f.Absent([]byte("a2")) {
		t.Errorf("of %d keys; a1 absent: %v, z1: %v, a2: %v", n, f.Absent([]byte("a1")), f.Absent([]byte("z1")), f.Absent([]byte("a2")))
	}
}
