package pebblestore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

func openStore(t *testing.T, fs vfs.FS) *pebblestore.Store {
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
	return pebblestore.New(db, pebblestore.Options{Now: func() time.Time { return time.Unix(1e9, 0) }})
}

func load(t *testing.T, s *pebblestore.Store, group record.GroupKey, token record.TokenKey) (record.Group, record.Token) {
	t.Helper()
	groups, tokens, err := s.Load(t.Context(), []record.GroupKey{group}, []record.TokenKey{token})
	if err != nil {
		t.Fatal(err)
	}
	return groups[0], tokens[0]
}

func groupKey(i int) record.GroupKey { return record.GroupKey{Stream: "orders", Group: fmt.Sprint(i)} }
func tokenKey(i int) record.TokenKey { return record.NewTokenKey("", "orders", fmt.Sprint(i)) }

// first returns the commit that creates a group, with one pending entry.
func first(i int) record.Commit {
	key := groupKey(i)
	return record.Commit{Loaded: record.Group{Key: key}, Next: record.Group{Key: key, Incarnation: 1, Version: 1, Pending: []record.Pending{{Number: 1}}}}
}

// groups is how many groups are committed to concurrently.
const groups = 8

func TestReadsAndAcknowledgedWritesSurviveACrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := openStore(t, fs)
	var acknowledged, seen [groups]atomic.Uint64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range groups {
		running.Go(func() { commitUntil(t, s, i, stop, &acknowledged[i]) })
		running.Go(func() { readUntil(t, s, i, stop, &seen[i]) })
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for crash := range 20 {
		for acknowledged[crash%groups].Load() < uint64(crash*3) {
			_, _ = load(t, s, groupKey(0), tokenKey(0))
		}
		var least [groups]uint64
		for i := range groups {
			least[i] = max(acknowledged[i].Load(), seen[i].Load())
		}
		crashed := openStore(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: crash % 3 * 50, RNG: rng}))
		for i := range groups {
			g, _ := load(t, crashed, groupKey(i), tokenKey(0))
			if g.Version < least[i] {
				t.Errorf("crash %d: group %d is at version %d after %d was read or acknowledged", crash, i, g.Version, least[i])
			}
			checkLog(t, crashed, &g, 0)
			lost := g
			lost.Log.Last += 100
			checkLog(t, crashed, &lost, 0)
			for n, want := range map[uint64]record.TokenState{g.Version: record.Done, g.Version + 1: record.Absent} {
				if _, token := load(t, crashed, groupKey(i), versionToken(i, n)); n > 0 && token.State != want {
					t.Errorf("crash %d: group %d is at version %d, and the token of version %d is %v", crash, i, g.Version, n, token.State)
				}
			}
		}
	}
	close(stop)
	running.Wait()
}

// versionToken returns the token that the commit of a version of group i marks done.
func versionToken(i int, version uint64) record.TokenKey { return tokenKey(i + groups*int(version)) }

func commitUntil(t *testing.T, s *pebblestore.Store, i int, stop <-chan struct{}, acknowledged *atomic.Uint64) {
	g := record.Group{Key: groupKey(i)}
	for {
		select {
		case <-stop:
			return
		default:
		}
		next := g
		next.Version, next.Incarnation = g.Version+1, 1
		next.Log.Last = next.Version
		done := record.Token{Key: versionToken(i, next.Version), State: record.Done}
		entry := record.Chunk{Group: next.Key, Incarnation: 1, First: next.Version, Last: next.Version}
		if err := s.Commit(t.Context(), record.Commit{Loaded: g, Next: next, Done: []record.Token{done}, Append: []record.Chunk{entry}}); err != nil {
			t.Error(err)
			return
		}
		g = next
		acknowledged.Store(g.Version)
	}
}

func readUntil(t *testing.T, s *pebblestore.Store, i int, stop <-chan struct{}, seen *atomic.Uint64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		groups, _, err := s.Load(t.Context(), []record.GroupKey{groupKey(i)}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		checkLog(t, s, &groups[0], max(groups[0].Version, 3)-3)
		seen.Store(groups[0].Version)
	}
}

// checkLog checks that a log has the chunk of each version of its group after one, and no others.
func checkLog(t *testing.T, s *pebblestore.Store, g *record.Group, after uint64) {
	t.Helper()
	chunks, err := s.ReadLog(t.Context(), record.LogRange{Group: g.Key, Incarnation: 1, After: after, Last: g.Log.Last, MaxBytes: 1 << 30})
	if err != nil || uint64(len(chunks)) != g.Version-after {
		t.Errorf("group %s at version %d has %d chunks after number %d, %v", g.Key, g.Version, len(chunks), after, err)
	}
	for i, c := range chunks {
		if c.First != after+uint64(i)+1 || c.Last != c.First {
			t.Errorf("chunk %d is from %d to %d", i, c.First, c.Last)
		}
	}
}

// A step is one write of a history, and a check of whether it is there.
type step struct {
	write func(t *testing.T, s *pebblestore.Store) error
	there func(t *testing.T, s *pebblestore.Store) bool
	sync  bool
}

// steps returns the steps of message i: one of each kind of write.
func steps(i int) []step {
	state := func(want record.TokenState, key int) func(t *testing.T, s *pebblestore.Store) bool {
		return func(t *testing.T, s *pebblestore.Store) bool {
			_, token := load(t, s, groupKey(i), tokenKey(key))
			return token.State >= want
		}
	}
	swap := func(from, to record.TokenState) func(t *testing.T, s *pebblestore.Store) error {
		return func(t *testing.T, s *pebblestore.Store) error {
			_, err := s.SwapToken(t.Context(), record.Token{Key: tokenKey(i), State: from}, record.Token{Key: tokenKey(i), State: to})
			return err
		}
	}
	return []step{
		{write: swap(record.Absent, record.Issued), there: state(record.Issued, i)},
		{write: swap(record.Issued, record.Leased), there: state(record.Leased, i), sync: true},
		{
			write: func(t *testing.T, s *pebblestore.Store) error { return s.Commit(t.Context(), first(i)) },
			there: func(t *testing.T, s *pebblestore.Store) bool {
				g, _ := load(t, s, groupKey(i), tokenKey(i))
				return g.Version == 1
			},
			sync: true,
		},
		{
			write: func(t *testing.T, s *pebblestore.Store) error {
				return s.MarkDone(t.Context(), []record.Token{{Key: tokenKey(i), State: record.Done}})
			},
			there: state(record.Done, i),
		},
		{
			write: func(t *testing.T, s *pebblestore.Store) error {
				return s.Clear(t.Context(), record.Clear{Group: groupKey(i), Incarnation: 1, Numbers: []uint64{1}})
			},
			there: func(t *testing.T, s *pebblestore.Store) bool {
				g, _ := load(t, s, groupKey(i), tokenKey(i))
				return g.Version == 1 && len(g.Pending) == 0
			},
		},
	}
}

func TestACrashUndoesOnlyTheLastUnsyncedWrites(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for run := range 30 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			s := openStore(t, fs)
			var history []step
			for i := range 20 {
				history = append(history, steps(i)...)
			}
			history = history[:1+rng.IntN(len(history))]
			synced := 0
			for n, step := range history {
				if err := step.write(t, s); err != nil {
					t.Fatal(err)
				}
				if step.sync {
					synced = n + 1
				}
			}
			crashed := openStore(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: run % 3 * 50, RNG: rng}))
			lost := false
			for n, step := range history {
				there := step.there(t, crashed)
				if !there && n < synced {
					t.Errorf("write %d of %d is lost, and write %d was synced", n+1, len(history), synced)
				}
				if there && lost {
					t.Errorf("write %d of %d survives an earlier one", n+1, len(history))
				}
				lost = lost || !there
			}
		})
	}
}

func TestACommitThatConflictsDoesNotHurtThoseWrittenWithOthers(t *testing.T) {
	g := &gate{waiting: make(chan struct{}, 100)}
	s := openStore(t, errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(g.MaybeError)))
	if err := s.Commit(t.Context(), first(0)); err != nil {
		t.Fatal(err)
	}
	reopen := g.shut()
	t.Cleanup(reopen)
	results := make(chan error, groups)
	commit := func(i int) { results <- s.Commit(t.Context(), first(i)) }
	go commit(1)
	<-g.waiting
	for i := 2; i < groups; i++ {
		go commit(i)
	}
	for limit := time.After(time.Minute); pebblestore.Gathered(s) < groups-2; runtime.Gosched() {
		select {
		case <-limit:
			t.Fatalf("%d commits wait together", pebblestore.Gathered(s))
		default:
		}
	}
	if err := s.Commit(t.Context(), first(0)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	reopen()
	for range groups - 1 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	for i := range groups {
		if group, _ := load(t, s, groupKey(i), tokenKey(0)); group.Version != 1 {
			t.Errorf("group %d has version %d", i, group.Version)
		}
	}
}
