package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// A racing store lets another writer go first, once, before it swaps a token.
type racing struct {
	*memstore.Store
	first func()
}

func (r *racing) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if first := r.first; first != nil {
		r.first = nil
		first()
	}
	return r.Store.SwapToken(ctx, old, next)
}

// A PUT renews the token of a one-time request between the publisher's read and its write.
func TestARequestIsMarkedDoneThoughItsTokenIsRenewedAtThatMoment(t *testing.T) {
	store := &racing{Store: memstore.New(time.Now)}
	key := record.NewTokenKey("", "s", "request")
	issued := record.Token{Key: key, State: record.Issued, Owner: "put", Epoch: 1, Expires: time.Now().Add(time.Hour)}
	if _, err := store.SwapToken(t.Context(), record.Token{Key: key}, issued); err != nil {
		t.Fatal(err)
	}
	store.first = func() {
		renewed := issued
		renewed.Epoch++
		if _, err := store.SwapToken(t.Context(), issued, renewed); err != nil {
			t.Error(err)
		}
	}
	done := record.Token{Key: key, State: record.Done, Owner: "a" + record.RequestAttempt, Epoch: 1, Expires: time.Now().Add(time.Hour)}
	if err := outbox.New(outbox.Config{Store: store}).MarkDone(t.Context(), []record.Token{done}); err != nil {
		t.Fatal(err)
	}
	if _, tokens, err := store.Load(t.Context(), nil, []record.TokenKey{key}); err != nil || tokens[0].State != record.Done {
		t.Errorf("the token is %v, %v: the next POST would run the request again", tokens[0].State, err)
	}
}

// The publisher's configuration says one day; the worker that committed last knew of a month.
func TestAClearedGroupIsKeptAsLongAsTheWorkerThatCommittedLastSaid(t *testing.T) {
	for name, c := range map[string]struct{ recorded, want time.Duration }{
		"the record says a month":    {30 * 24 * time.Hour, 30 * 24 * time.Hour},
		"the record is for ever":     {0, 0},
		"the record says an hour":    {time.Hour, time.Hour},
		"both say the same duration": {24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(time.Now)
				p := outbox.New(outbox.Config{
					Store: store, Senders: map[string]record.Sender{"out": &flaky{}}, Now: time.Now, Observe: func(record.Event) {},
					Streams: record.Streams{"s": {Name: "s", GroupRetention: 24 * time.Hour}},
				})
				g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1, Version: 1, Last: 1, Retention: c.recorded}
				g.Pending = []record.Pending{{Number: 1, Identity: "1", Effects: []record.Effect{{To: []string{"out"}}}}}
				if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: g.Key}, Next: g}); err != nil {
					t.Fatal(err)
				}
				if err := p.Publish(t.Context(), []record.GroupKey{g.Key})[0]; err != nil {
					t.Fatal(err)
				}
				groups, _, err := store.Load(t.Context(), []record.GroupKey{g.Key}, nil)
				want := time.Now().Add(c.want)
				if c.want == 0 {
					want = time.Time{}
				}
				if err != nil || len(groups[0].Pending) > 0 || !groups[0].Expires.Equal(want) {
					t.Errorf("expires in %v, want %v; %v", time.Until(groups[0].Expires), c.want, err)
				}
			})
		})
	}
}
