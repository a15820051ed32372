package dynamostore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// TestWhatIsSentOfManyEntriesIsNoted has one of two destinations away while much is pending: what the other one has got must not go there again.
func TestWhatIsSentOfManyEntriesIsNoted(t *testing.T) {
	t.Parallel()
	client := connect(t)
	store := open(t, client, createTables(t, client), time.Now)
	key := record.GroupKey{Stream: "orders", Group: "g"}
	const entries = 180
	next := record.Group{Key: key, Incarnation: 1, Version: 1, Last: entries}
	clear := record.Clear{Group: key, Incarnation: 1, Sent: map[uint64][]record.Sent{}}
	for n := uint64(1); n <= entries; n++ {
		next.Pending = append(next.Pending, record.Pending{
			Number: n, Identity: fmt.Sprint("m", n), Attempt: "a", Effects: []record.Effect{{To: []string{"here", "away"}, Body: []byte("x")}},
		})
		if n > entries/3 {
			clear.Sent[n] = []record.Sent{{To: "here"}}
		} else {
			clear.Numbers = append(clear.Numbers, n)
		}
	}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: next, Attempt: "a"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time all of it is there already
		if err := store.Clear(t.Context(), clear); err != nil {
			t.Fatal(err)
		}
	}
	groups, _, err := store.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64][]record.Sent{}
	for _, p := range groups[0].Pending {
		got[p.Number] = p.Sent
	}
	if d := cmp.Diff(clear.Sent, got); d != "" {
		t.Errorf("sent (-want +got)\n%s", d)
	}
}
