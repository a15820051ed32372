package pebblestore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

func unfiltered(*testing.T, *pebble.DB) *presence.Filter { return nil }

// filtered returns a filter that answers.
func filtered(t *testing.T, db *pebble.DB) *presence.Filter {
	t.Helper()
	f := presence.New(db, pebbledb.Groups, pebbledb.Tokens)
	if err := f.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// refilled returns a filter that is filled again and again until the end of the test.
func refilled(t *testing.T, db *pebble.DB) *presence.Filter {
	t.Helper()
	f := presence.New(db, pebbledb.Groups, pebbledb.Tokens)
	ctx, cancel := context.WithCancel(t.Context())
	var filling sync.WaitGroup
	filling.Go(func() {
		for ctx.Err() == nil {
			if err := f.Fill(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			runtime.Gosched() // with one processor the callers would wait for the end of each time slice
		}
	})
	t.Cleanup(func() {
		cancel()
		filling.Wait()
	})
	return f
}

func openFiltered(t *testing.T, fs vfs.FS, known func(*testing.T, *pebble.DB) *presence.Filter) (*pebblestore.Store, *pebble.DB, *presence.Filter) {
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
	f := known(t, db)
	return pebblestore.New(db, pebblestore.Options{Presence: f, Now: func() time.Time { return time.Unix(1e9, 0) }}), db, f
}

// Concurrent writers make all kinds of writes to their own messages, and read each one back. Then
// the machine crashes, and all records that survived must be found.
func TestEveryRecordIsFoundWhileTheFilterIsFilledAndAfterACrash(t *testing.T) {
	const writers, messages = 8, 20
	fs := vfs.NewCrashableMem()
	s, _, _ := openFiltered(t, fs, refilled)
	for crash := range 3 {
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for m := range messages {
					for n, step := range steps((crash*writers+w)*messages + m) {
						if err := step.write(t, s); err != nil {
							t.Errorf("step %d: %v", n, err)
						}
						if !step.there(t, s) {
							t.Errorf("step %d is not found", n)
						}
					}
				}
			})
		}
		writing.Wait()
		fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, uint64(crash)))})
		plain := openStore(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		s, _, _ = openFiltered(t, fs, filtered)
		for i := range (crash + 1) * writers * messages {
			wantGroup, wantToken := load(t, plain, groupKey(i), tokenKey(i))
			group, token := load(t, s, groupKey(i), tokenKey(i))
			if group.Version != wantGroup.Version || token.State != wantToken.State {
				t.Fatalf("message %d: group version %d and token %s, want %d and %s", i, group.Version, token.State, wantGroup.Version, wantToken.State)
			}
		}
		s, _, _ = openFiltered(t, fs.CrashClone(vfs.CrashCloneCfg{}), refilled)
	}
}

// All writes of the store add their keys to the filter.
func TestNoKeyOfTheStoreIsReportedAbsent(t *testing.T) {
	s, db, f := openFiltered(t, vfs.NewMem(), filtered)
	for i := range 10 {
		for _, step := range steps(i) {
			if err := step.write(t, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	it, err := db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
		if f.Absent(it.Key()) {
			t.Errorf("%x exists and is reported absent", it.Key())
		}
	}
	if n != 20 {
		t.Errorf("%d keys", n)
	}
}

func TestAnExpiredRecordThatWasDeletedCanBeWrittenAgain(t *testing.T) {
	s, _, _ := openFiltered(t, vfs.NewMem(), refilled)
	past, key := time.Unix(1e8, 0), tokenKey(1)
	for range 3 {
		done := record.Token{Key: key, State: record.Done, Expires: past}
		if err := s.MarkDone(t.Context(), []record.Token{done}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Expire(t.Context(), 10); n != 1 || err != nil {
			t.Fatalf("%d records expired: %v", n, err)
		}
		if _, token := load(t, s, groupKey(1), key); token.State != record.Absent {
			t.Errorf("an expired token is %s", token.State)
		}
		issued := record.Token{Key: key, State: record.Issued}
		if _, err := s.SwapToken(t.Context(), record.Token{Key: key}, issued); err != nil {
			t.Fatal(err)
		}
		if _, token := load(t, s, groupKey(1), key); token.State != record.Issued {
			t.Errorf("an issued token is %s", token.State)
		}
	}
}

// Pebble counts how often it asks the bloom filter of a table, which it does in each lookup of a
// key in that table's range.
func TestNewIdentitiesNeedNoLookups(t *testing.T) {
	lookups := map[string]int64{}
	for name, known := range map[string]func(*testing.T, *pebble.DB) *presence.Filter{"with": filtered, "without": unfiltered} {
		s, db, _ := openFiltered(t, vfs.NewMem(), known)
		var tokens []record.Token
		for i := range 2000 {
			tokens = append(tokens, record.Token{Key: tokenKey(i), State: record.Done})
		}
		first, last := record.Token{State: record.Done}, record.Token{State: record.Done}
		for i := range last.Key {
			last.Key[i] = 255
		}
		err := errors.Join(s.MarkDone(t.Context(), append(tokens, first, last)), s.Commit(t.Context(), groupNamed("a")), s.Commit(t.Context(), groupNamed("z")), db.Flush())
		if err != nil {
			t.Fatal(err)
		}
		asked := func() int64 { f := db.Metrics().Filter; return f.Hits + f.Misses }
		before := asked()
		for i := range 1000 {
			key := record.NewTokenKey("", "new", fmt.Sprint(i))
			group, token := load(t, s, record.GroupKey{Stream: "orders", Group: fmt.Sprint("m", i)}, key)
			if group.Version != 0 || token.State != record.Absent {
				t.Fatalf("%+v, %+v", group, token)
			}
			if _, err := s.SwapToken(t.Context(), token, record.Token{Key: key, State: record.Issued}); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), groupNamed(fmt.Sprint("m", i))); err != nil {
				t.Fatal(err)
			}
		}
		lookups[name] = asked() - before
	}
	if lookups["with"] > 50 || lookups["without"] < 3000 {
		t.Errorf("lookups for 1,000 messages: %v", lookups)
	}
}

func groupNamed(name string) record.Commit {
	key := record.GroupKey{Stream: "orders", Group: name}
	return record.Commit{Loaded: record.Group{Key: key}, Next: record.Group{Key: key, Incarnation: 1, Version: 1}}
}
