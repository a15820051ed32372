package dynamostore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// This test has one of two destinations down while many entries are pending: effects that the other
// one has received must not be sent there again.
func TestMarksOfManyEntriesAreWritten(t *testing.T) {
	t.Parallel()
	client := connect(t)
	store := open(t, client, awstest.Tables(t, client), time.Now)
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
	for range 2 { // the second time all marks are there already
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

func TestAClearAsksForNoMoreThanItChanges(t *testing.T) {
	w := newWorld(t)
	w.commit(t, following(w.group(t), "first", 1, 2))
	mark := record.Clear{Group: key, Incarnation: 1000, Sent: map[uint64][]record.Sent{1: {{To: "ledger"}}}}
	for _, step := range []struct {
		name     string
		clear    record.Clear
		requests []string
	}{
		{"nothing", record.Clear{Group: key, Incarnation: 1000}, nil},
		{"a mark", mark, []string{"UpdateItem"}},
		// its condition fails, and returns the stored item
		{"the same mark", mark, []string{"UpdateItem"}},
	} {
		w.net.requests = nil
		if err := w.Clear(t.Context(), step.clear); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.net.requests, step.requests) {
			t.Errorf("%s: requests %v, want %v", step.name, w.net.requests, step.requests)
		}
	}
}

// A beaten client lets another writer go first, once between two updates.
type beaten struct {
	dynamostore.Client
	updates int
	first   func()
}

func (b *beaten) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if b.updates++; b.updates == 2 {
		b.first()
	}
	return b.Client.UpdateItem(ctx, in, options...)
}

// This test has three publishers of one entry, each of which has sent it to another destination: a
// lost mark is an effect sent twice.
func TestMarksOfConcurrentPublishersSurvive(t *testing.T) {
	w := newWorld(t)
	w.commit(t, following(w.group(t), "first", 1))
	clear := func(to string) record.Clear {
		return record.Clear{Group: key, Incarnation: 1000, Sent: map[uint64][]record.Sent{1: {{To: to}}}}
	}
	mark := func(s *dynamostore.Store, to string) {
		if err := s.Clear(t.Context(), clear(to)); err != nil {
			t.Error(err)
		}
	}
	mark(w.beside, "ledger")
	client := &beaten{Client: connect(t), first: func() { mark(w.beside, "shop") }}
	mark(open(t, client, w.tables, time.Now), "mail")
	want := []record.Sent{{To: "ledger"}, {To: "shop"}, {To: "mail"}}
	if got := w.group(t).Pending[0].Sent; !slices.Equal(got, want) || client.updates != 3 {
		t.Errorf("%v after %d updates, want %v after 3", got, client.updates, want)
	}
}
