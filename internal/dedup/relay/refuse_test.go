package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/dedup/relay"
	"github.com/effectively-once/once/internal/record"
)

// over returns a relay of the bench on another store, with blobs.
func (b *bench) over(store record.Store, blobs record.Blobs) *relay.Relay {
	now := func() time.Time { return noon }
	observe := func(record.Event) {}
	senders := map[string]record.Sender{"out": sender{b, "out"}, "side": sender{b, "side"}}
	return relay.New(relay.Config{
		Streams: b.streams, Store: store, Now: now, NewID: func() string { return "a" }, Observe: observe,
		Publisher: outbox.New(outbox.Config{Streams: b.streams, Store: store, Queues: b, Senders: senders, Blobs: blobs, Now: now, Observe: observe}),
	})
}

// A damaged store can't read any token.
type damaged struct{ record.Store }

func (damaged) Load(context.Context, []record.GroupKey, []record.TokenKey) ([]record.Group, []record.Token, error) {
	return nil, nil, fmt.Errorf("token: %w", record.ErrCorrupt)
}

func TestAMessageWithACorruptTokenIsRetried(t *testing.T) {
	b := newBench(t, nil)
	o := b.over(damaged{b}, nil).Process(t.Context(), time.Time{}, []*admission.Arrival{b.arrival(message("a", "x"))})[0]
	if o.Kind != record.Retry || !errors.Is(o.Err, record.ErrCorrupt) {
		t.Errorf("%s: %v", o.Kind, o.Err)
	}
}

// aCorruptOne can't read the token of message a. It refuses repeated keys, as DynamoDB does.
type aCorruptOne struct{ record.Store }

func (s aCorruptOne) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	asked := map[record.TokenKey]bool{}
	for _, key := range tokens {
		if asked[key] {
			return nil, nil, errors.New("a key is there twice")
		}
		asked[key] = true
	}
	if asked[record.NewTokenKey("", "s", "a")] {
		return nil, nil, fmt.Errorf("token: %w", record.ErrCorrupt)
	}
	return s.Store.Load(ctx, groups, tokens)
}

func TestACorruptTokenBlocksOnlyItsOwnMessage(t *testing.T) {
	b := newBench(t, nil)
	fates := b.over(aCorruptOne{b}, nil).Process(t.Context(), time.Time{}, []*admission.Arrival{b.arrival(message("a", "x")), b.arrival(message("b", "x"))})
	same(t, "fates", []record.Kind{fates[0].Kind, fates[1].Kind}, []record.Kind{record.Retry, record.Processed})
	if !errors.Is(fates[0].Err, record.ErrCorrupt) {
		t.Error(fates[0].Err)
	}
}

func TestEachTokenIsReadOnce(t *testing.T) {
	b := newBench(t, nil)
	fates := b.over(aCorruptOne{b}, nil).Process(t.Context(), time.Time{}, []*admission.Arrival{b.arrival(message("b", "x")), b.arrival(message("b", "x"))})
	same(t, "fates", []record.Kind{fates[0].Kind, fates[1].Kind}, []record.Kind{record.Processed, record.Duplicate})
}

func TestACopyOfAFailedMessageIsBlocked(t *testing.T) {
	b := newBench(t, nil)
	fates := b.Process(t.Context(), time.Time{}, []*admission.Arrival{b.arrival(message("a", "fail")), b.arrival(message("a", "fail"))})
	if !errors.As(fates[0].Err, new(*record.HandlerError)) || !errors.Is(fates[1].Err, record.ErrBlocked) {
		t.Errorf("%v, and then %v", fates[0].Err, fates[1].Err)
	}
}

// anyBlobs accepts blobs of any name.
type anyBlobs struct{ record.Blobs }

func (anyBlobs) Check(string) error { return nil }

func TestABlobOfAMessageWithoutAGroupRecordIsAnError(t *testing.T) {
	b := newBench(t, nil)
	if o := b.over(b, anyBlobs{}).Process(t.Context(), time.Time{}, []*admission.Arrival{b.arrival(message("a", "blob"))})[0]; o.Kind != record.Retry {
		t.Errorf("%s: %v", o.Kind, o.Err)
	}
}
