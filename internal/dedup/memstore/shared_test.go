package memstore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

func pendingEntry(number uint64) record.Pending {
	effect := record.Effect{To: []string{"a", "b"}, Body: []byte("body"), Headers: map[string]string{"n": "1"}}
	return record.Pending{Number: number, Attempt: "1", Effects: []record.Effect{effect}, Sent: []record.Sent{{To: "a"}}}
}

// write commits a record with three entries, and returns it as it is read.
func write(t *testing.T, s *memstore.Store, key record.GroupKey) record.Group {
	t.Helper()
	next := record.Group{Key: key, Incarnation: 1, Version: 1, Last: 3, Pending: []record.Pending{pendingEntry(1), pendingEntry(2), pendingEntry(3)}}
	if err := s.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: next, Attempt: "1"}); err != nil {
		t.Fatal(err)
	}
	next.Pending[0].Effects[0].Body[0] = 'x'
	next.Pending[0].Effects[0].Headers["n"] = "x"
	return read(t, s, key)
}

func read(t *testing.T, s *memstore.Store, key record.GroupKey) record.Group {
	t.Helper()
	groups, _, err := s.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return groups[0]
}

func TestAClearDoesNotChangeWhatASharedStoreReturnedBefore(t *testing.T) {
	key := record.GroupKey{Stream: "s", Group: "g"}
	s := memstore.NewShared(time.Now)
	before := write(t, s, key)
	copied := s.Snapshot(time.Now)
	kept := pendingEntry(3)
	kept.Effects = nil
	err := s.Clear(t.Context(), record.Clear{
		Group: key, Incarnation: 1, Numbers: []uint64{1}, Done: []record.Pending{kept}, Sent: map[uint64][]record.Sent{2: {{To: "b"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Pending{pendingEntry(1), pendingEntry(2), pendingEntry(3)}
	if diff := cmp.Diff(want, before.Pending); diff != "" {
		t.Errorf("the result of an earlier read has changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, read(t, copied, key).Pending); diff != "" {
		t.Errorf("an earlier snapshot has changed (-want +got):\n%s", diff)
	}
	marked := pendingEntry(2)
	marked.Sent = append(marked.Sent, record.Sent{To: "b"})
	if diff := cmp.Diff([]record.Pending{marked, kept}, read(t, s, key).Pending); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}

func TestACommitCopiesTheEntriesThatItAddsToASharedStore(t *testing.T) {
	key := record.GroupKey{Stream: "s", Group: "g"}
	s := memstore.NewShared(time.Now)
	loaded := write(t, s, key)
	next := loaded.Clone()
	next.Version, next.Pending = 2, append(next.Pending, pendingEntry(4))
	if err := s.Commit(t.Context(), record.Commit{Loaded: loaded, Next: next, Attempt: "2"}); err != nil {
		t.Fatal(err)
	}
	next.Pending[3].Effects[0].To[0] = "x"
	want := []record.Pending{pendingEntry(1), pendingEntry(2), pendingEntry(3), pendingEntry(4)}
	if diff := cmp.Diff(want, read(t, s, key).Pending); diff != "" {
		t.Errorf("the record (-want +got):\n%s", diff)
	}
}
