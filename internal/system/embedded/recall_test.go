package embedded

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// unfinished commits one pending effect in each group of a stream, without a trigger.
func unfinished(t *testing.T, s *System, groups ...string) (keys []record.GroupKey) {
	t.Helper()
	for _, name := range groups {
		next := pending(1, 1)
		next.Key = record.GroupKey{Stream: "messages", Group: name}
		if err := s.watch.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: next.Key}, Next: next}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, next.Key)
	}
	return keys
}

// watched returns the names of the groups in the watch.
func watched(s *System) []string {
	var names []string
	for key := range s.watch.active {
		names = append(names, key.Group)
	}
	return slices.Sorted(slices.Values(names))
}

// queued returns the groups that have a trigger.
func queued(t *testing.T, s *System) []string {
	t.Helper()
	found, err := s.queues.publishFIFO.Peek(1000)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range found {
		names[d.Group] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func TestARestartLoadsNoGroupWhoseTriggerIsOnTheQueue(t *testing.T) {
	s := started(t, Options{})
	keys := unfinished(t, s, "a", "b", "c")
	if err := s.now().pipeline.Queues.Trigger(t.Context(), keys[:2], 0); err != nil {
		t.Fatal(err)
	}
	held := version(1, true)
	held.Key = record.GroupKey{Stream: "messages", Group: "held"}
	left := pending(1, 1)
	left.Key, left.Pending[0].Effects = record.GroupKey{Stream: "messages", Group: "left"}, nil
	for _, g := range []record.Group{held, left} {
		if err := s.store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: g.Key}, Next: g}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.now().pipeline.Queues.Trigger(t.Context(), []record.GroupKey{held.Key, left.Key}, 0); err != nil {
		t.Fatal(err)
	}
	s.watch = newWatch(s.store, time.Now) // that of a new process
	if err := s.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "held", "left"}, watched(s)); diff != "" {
		t.Errorf("groups in memory (-want +got):\n%s", diff)
	}
}

func TestAWalkFindsTheGroupsThatAFullWatchHasMissed(t *testing.T) {
	s := started(t, Options{})
	s.watch.limit = 2
	unfinished(t, s, "a", "b", "c", "d")
	if diff := cmp.Diff([]string{"a", "b"}, watched(s)); diff != "" {
		t.Fatalf("groups in memory (-want +got):\n%s", diff)
	}
	if err := s.walk(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"messages/c", "messages/d"}, queued(t, s)); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
	if err := s.walk(t.Context()); err != nil || !s.watch.misses() {
		t.Errorf("no walk follows while groups with triggers are unfinished: %v", err)
	}
}

func TestAGroupThatIsStrandedIsDueEvenIfTheWatchIsFull(t *testing.T) {
	s := started(t, Options{})
	s.watch.limit = 1
	keys := unfinished(t, s, "a", "b")
	s.watch.dueIn(keys[1], 0)
	s.sweep(t.Context())
	if diff := cmp.Diff([]string{"messages/b"}, queued(t, s)); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
}

func TestAWatchThatMissesNothingIsNotWalkedFor(t *testing.T) {
	s := started(t, Options{})
	unfinished(t, s, "a")
	s.watch = newWatch(s.store, time.Now)
	if err := s.walk(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := watched(s); len(got) != 0 {
		t.Errorf("the store was read: %v", got)
	}
}
