package dynamostore_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func TestGroupsThatHoldMessagesAreFoundWithoutAScan(t *testing.T) {
	client := connect(t)
	store := open(t, client, awstest.Tables(t, client), time.Now)
	var want []record.GroupKey
	for name := range strings.FieldsSeq("a b c d e f g h i j k") {
		key := record.GroupKey{Stream: "orders", Group: name}
		hold(t, store, key, 2)
		want = append(want, key)
	}
	if diff := cmp.Diff(want, waiting(t, store)); diff != "" {
		t.Error(diff)
	}

	release(t, store, want[3])
	if diff := cmp.Diff(slices.Delete(slices.Clone(want), 3, 4), waiting(t, store)); diff != "" {
		t.Error(diff)
	}
}

func waiting(t *testing.T, store *dynamostore.Store) []record.GroupKey {
	t.Helper()
	var keys []record.GroupKey
	for key, err := range store.Waiting(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b record.GroupKey) int { return strings.Compare(a.Group, b.Group) })
	return keys
}

// hold commits a group that waits for its first message.
func hold(t *testing.T, store *dynamostore.Store, key record.GroupKey, number uint64) {
	t.Helper()
	held := record.Held{Message: record.Message{Stream: key.Stream, Group: key.Group, Source: "s", Sequence: number}, At: time.Now()}
	next := record.Group{Key: key, Incarnation: 1, Version: 1, Sources: map[string]record.Source{"s": {Next: 1, Held: record.Ranges{{First: number, Last: number}}}}}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: next, Attempt: "hold " + rand.Text(), Hold: []record.Held{held}}); err != nil {
		t.Fatal(err)
	}
}

// release commits the group without its held messages.
func release(t *testing.T, store *dynamostore.Store, key record.GroupKey) {
	t.Helper()
	groups, _, err := store.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := groups[0].Clone()
	next.Version++
	src := next.Sources["s"]
	held := record.HeldKey{Group: key, Source: "s", Sequence: src.Held[0].First}
	src.Held = nil
	next.Sources["s"] = src
	if err := store.Commit(t.Context(), record.Commit{Loaded: groups[0], Next: next, Attempt: "release " + rand.Text(), Unhold: []record.HeldKey{held}}); err != nil {
		t.Fatal(err)
	}
}
