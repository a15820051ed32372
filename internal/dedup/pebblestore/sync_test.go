package pebblestore_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/record"
)

// A gate lets syncs of the write-ahead log through while it is open, and reports when one waits.
type gate struct {
	waiting chan struct{}

	mu   sync.Mutex
	open chan struct{}
}

func (g *gate) shut() (reopen func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := make(chan struct{})
	g.open = open
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.open = nil
		g.mu.Unlock()
		close(open)
	})
}

// MaybeError implements errorfs.Injector, which is called before each operation.
func (g *gate) MaybeError(op errorfs.Op) error {
	if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData || filepath.Ext(op.Path) != ".log" {
		return nil
	}
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open == nil {
		return nil
	}
	g.waiting <- struct{}{}
	<-open
	return nil
}

func TestNoReaderSeesACommitThatACrashCanUndo(t *testing.T) {
	for name, c := range map[string]struct {
		write func(s *pebblestore.Store) error
		key   any
	}{
		"commit": {
			write: func(s *pebblestore.Store) error { return s.Commit(t.Context(), first(1)) },
			key:   groupKey(1),
		},
		"done in a commit": {
			write: func(s *pebblestore.Store) error {
				c := first(1)
				c.Done = []record.Token{{Key: tokenKey(1), State: record.Done}}
				return s.Commit(t.Context(), c)
			},
			key: tokenKey(1),
		},
		"commits of several groups": {
			write: func(s *pebblestore.Store) error {
				return errors.Join(s.CommitAll(t.Context(), []record.Commit{first(2), first(1)})...)
			},
			key: groupKey(1),
		},
		"done in commits of several groups": {
			write: func(s *pebblestore.Store) error {
				c, other := first(1), first(2)
				c.Done = []record.Token{{Key: tokenKey(1), State: record.Done}}
				return errors.Join(s.CommitAll(t.Context(), []record.Commit{other, c})...)
			},
			key: tokenKey(1),
		},
		"two done in a commit": {
			write: func(s *pebblestore.Store) error {
				c := first(1)
				c.Done = []record.Token{{Key: tokenKey(2), State: record.Done}, {Key: tokenKey(1), State: record.Done}}
				return s.Commit(t.Context(), c)
			},
			key: tokenKey(1),
		},
		"lease": {
			write: func(s *pebblestore.Store) error {
				_, err := s.SwapToken(t.Context(), record.Token{Key: tokenKey(1)}, record.Token{Key: tokenKey(1), State: record.Leased})
				return err
			},
			key: tokenKey(1),
		},
		"stored request": {
			write: func(s *pebblestore.Store) error {
				issued := record.Token{Key: tokenKey(1), State: record.Issued, Request: &record.Message{}}
				_, err := s.SwapToken(t.Context(), record.Token{Key: tokenKey(1)}, issued)
				return err
			},
			key: tokenKey(1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			g := &gate{waiting: make(chan struct{})}
			s := openStore(t, errorfs.Wrap(fs, errorfs.InjectorFunc(g.MaybeError)))
			reopen := g.shut()
			t.Cleanup(reopen)
			written := make(chan error, 1)
			go func() { written <- c.write(s) }()
			select {
			case <-g.waiting:
			case err := <-written:
				t.Fatalf("written without a sync: %v", err)
			}

			crashed := openStore(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			if group, token := load(t, crashed, groupKey(1), tokenKey(1)); group.Version != 0 || token.State != record.Absent {
				t.Error("the write survives a crash before its sync: this test tests nothing")
			}
			if pebblestore.Readable(s, c.key) {
				t.Error("the record can be read before its sync")
			}
			reopen()
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			if !pebblestore.Readable(s, c.key) {
				t.Error("the record can't be read after its sync")
			}
		})
	}
}

// TestALoadDoesNotReturnACommitBeforeItsSync is what makes entries durable that a reader of a log
// was given: it reads up to the end that a loaded record has.
func TestALoadDoesNotReturnACommitBeforeItsSync(t *testing.T) {
	g := &gate{waiting: make(chan struct{})}
	s := openStore(t, errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(g.MaybeError)))
	reopen := g.shut()
	t.Cleanup(reopen)
	written, loaded := make(chan error, 1), make(chan record.Group, 1)
	go func() { written <- s.Commit(t.Context(), first(1)) }()
	<-g.waiting
	go func() {
		groups, _, err := s.Load(t.Context(), []record.GroupKey{groupKey(1)}, nil)
		if err != nil {
			t.Error(err)
			groups = make([]record.Group, 1)
		}
		loaded <- groups[0]
	}()
	for pebblestore.Users(s, groupKey(1)) < 2 { // until the load waits for the commit
		select {
		case group := <-loaded:
			t.Fatalf("version %d is loaded before its sync", group.Version)
		default:
			runtime.Gosched()
		}
	}
	reopen()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if group := <-loaded; group.Version != 1 {
		t.Errorf("version %d is loaded after the sync", group.Version)
	}
}

func TestMarksClearsAndIssuedTokensDoNotWaitForASync(t *testing.T) {
	g := &gate{waiting: make(chan struct{}, 100)}
	s := openStore(t, errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(g.MaybeError)))
	if err := s.Commit(t.Context(), first(1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shut())
	written := make(chan error, 1)
	go func() {
		_, err := s.SwapToken(t.Context(), record.Token{Key: tokenKey(2)}, record.Token{Key: tokenKey(2), State: record.Issued})
		together := s.SwapTokens(t.Context(), []record.Swap{
			{Old: record.Token{Key: tokenKey(3)}, Next: record.Token{Key: tokenKey(3), State: record.Issued}},
			{Old: record.Token{Key: tokenKey(4)}, Next: record.Token{Key: tokenKey(4), State: record.Issued}},
		})
		written <- errors.Join(err, together[0].Err, together[1].Err,
			s.MarkDone(t.Context(), []record.Token{{Key: tokenKey(1), State: record.Done}}),
			s.Clear(t.Context(), record.Clear{Group: groupKey(1), Incarnation: 1, Numbers: []uint64{1}}))
	}()
	select {
	case <-g.waiting:
		t.Fatal("a write waits for a sync")
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	}
	if group, token := load(t, s, groupKey(1), tokenKey(1)); len(group.Pending) != 0 || token.State != record.Done {
		t.Error("what was written can't be read")
	}
}

func TestSwapsTogetherWaitForASyncIfOneOfThemDoes(t *testing.T) {
	g := &gate{waiting: make(chan struct{}, 100)}
	s := openStore(t, errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(g.MaybeError)))
	reopen := g.shut()
	t.Cleanup(reopen)
	written := make(chan error, 1)
	go func() {
		together := s.SwapTokens(t.Context(), []record.Swap{
			{Old: record.Token{Key: tokenKey(1)}, Next: record.Token{Key: tokenKey(1), State: record.Leased}},
			{Old: record.Token{Key: tokenKey(2)}, Next: record.Token{Key: tokenKey(2), State: record.Issued}},
		})
		written <- errors.Join(together[0].Err, together[1].Err)
	}()
	select {
	case <-g.waiting:
	case err := <-written:
		t.Fatalf("written without a sync: %v", err)
	}
	reopen()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// While a commit waits for its sync, its group can't be loaded. A reader that has loaded the record
// before still reads its log, and sees nothing of the commit.
func TestAReaderOfALogDoesNotWaitForASync(t *testing.T) {
	g := &gate{waiting: make(chan struct{}, 1)}
	s := openStore(t, errorfs.Wrap(vfs.NewCrashableMem(), errorfs.InjectorFunc(g.MaybeError)))
	next := func(loaded record.Group) record.Commit {
		c := record.Commit{Loaded: loaded, Next: loaded}
		c.Next.Version, c.Next.Incarnation, c.Next.Log.Last = loaded.Version+1, 1, loaded.Log.Last+1
		c.Append = []record.Chunk{{Group: loaded.Key, Incarnation: 1, First: c.Next.Log.Last, Last: c.Next.Log.Last}}
		return c
	}
	if err := s.Commit(t.Context(), next(record.Group{Key: groupKey(1)})); err != nil {
		t.Fatal(err)
	}
	loaded, _ := load(t, s, groupKey(1), tokenKey(1))
	reopen := g.shut()
	t.Cleanup(reopen)
	written := make(chan error, 1)
	go func() { written <- s.Commit(t.Context(), next(loaded)) }()
	<-g.waiting
	checkLog(t, s, &loaded, 0)
	if pebblestore.Readable(s, groupKey(1)) {
		t.Error("the record can be read before its sync: this test tests nothing")
	}
	reopen()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	loaded, _ = load(t, s, groupKey(1), tokenKey(1))
	checkLog(t, s, &loaded, 0)
}
