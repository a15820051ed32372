package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// picky refuses every delivery, after the caller's context has ended.
type picky struct{}

func (picky) Send(ctx context.Context, deliveries []record.Delivery) []error {
	<-ctx.Done()
	errs := make([]error, len(deliveries))
	for i := range errs {
		errs[i] = &record.RefusedError{Reason: record.ReasonInvalid, Detail: "never"}
	}
	return errs
}

// letters records dead letters; it fails if the context has ended.
type letters struct {
	record.Queues
	identities []string
}

func (l *letters) DeadLetter(ctx context.Context, refused []record.Refused) error {
	for _, r := range refused {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.identities = append(l.identities, r.Delivery.Identity)
	}
	return nil
}

// stubborn refuses its first delivery, and blocks those behind it, as package retry does.
type stubborn struct{ sent []uint64 }

func (s *stubborn) Send(_ context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	blocked := map[string]bool{}
	for i, d := range deliveries {
		switch {
		case blocked[d.Group]:
			errs[i] = record.ErrBlocked
		case d.Number == 1:
			errs[i], blocked[d.Group] = &record.RefusedError{Reason: record.ReasonUndeliverable}, true
		case d.Number == 3:
			errs[i], blocked[d.Group] = errors.New("away"), true
		default:
			s.sent = append(s.sent, d.Number)
		}
	}
	return errs
}

// full keeps no dead letter.
type full struct{ record.Queues }

func (full) DeadLetter(context.Context, []record.Refused) error { return errors.New("full") }

func TestTheEffectsBehindARefusedOneAreSentWhenItIsADeadLetterAndNotBefore(t *testing.T) {
	for name, test := range map[string]struct {
		queues record.Queues
		sent   []uint64
		failed []bool
	}{
		"dead letter":    {&letters{}, []uint64{2}, []bool{false, false, true, true}},
		"no dead letter": {full{}, nil, []bool{true, true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			sender := &stubborn{}
			p := outbox.New(outbox.Config{Senders: map[string]record.Sender{"out": sender}, Queues: test.queues})
			var shipments []*outbox.Shipment
			for n := range uint64(4) {
				shipments = append(shipments, &outbox.Shipment{To: "out", Delivery: record.Delivery{Stream: "s", Group: "g", Number: n + 1}})
			}
			p.Ship(t.Context(), shipments)
			if !slices.Equal(sender.sent, test.sent) {
				t.Errorf("sent %v", sender.sent)
			}
			for i, s := range shipments {
				if (s.Err != nil) != test.failed[i] {
					t.Errorf("effect %d: %v", i+1, s.Err)
				}
			}
		})
	}
}

// canned returns the same errors for each round and counts the rounds.
type canned struct {
	errs   []error
	rounds int
}

func (c *canned) Send(_ context.Context, deliveries []record.Delivery) []error {
	if c.rounds++; c.rounds > 1 {
		return make([]error, len(deliveries))
	}
	return c.errs
}

func TestOnlyTheEffectsThatADeadLetterBlockedAreSentAgain(t *testing.T) {
	refused := &record.RefusedError{Reason: record.ReasonGone}
	for name, test := range map[string]struct {
		first  []error
		rounds int
	}{
		"sent behind a refused one":         {[]error{refused, nil}, 1},
		"failed behind a refused one":       {[]error{refused, errors.New("away")}, 1},
		"blocked behind a sent one":         {[]error{nil, record.ErrBlocked}, 1},
		"blocked behind a refused one":      {[]error{refused, record.ErrBlocked}, 2},
		"blocked behind a later failed one": {[]error{refused, errors.New("away"), record.ErrBlocked}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			sender := &canned{errs: test.first}
			p := outbox.New(outbox.Config{Senders: map[string]record.Sender{"out": sender}, Queues: &letters{}})
			var shipments []*outbox.Shipment
			for n := range uint64(len(test.first)) {
				shipments = append(shipments, &outbox.Shipment{To: "out", Delivery: record.Delivery{Stream: "s", Group: "g", Number: n + 1}})
			}
			p.Ship(t.Context(), shipments)
			if sender.rounds != test.rounds {
				t.Errorf("sent in %d rounds, want %d", sender.rounds, test.rounds)
			}
		})
	}
}

func TestAHeldRefusalIsLeftToTheCaller(t *testing.T) {
	queues, refused := &letters{}, &record.RefusedError{Reason: record.ReasonGone}
	p := outbox.New(outbox.Config{Senders: map[string]record.Sender{"out": &canned{errs: []error{refused}}}, Queues: queues})
	s := &outbox.Shipment{To: "out", Hold: true}
	p.Ship(t.Context(), []*outbox.Shipment{s})
	if len(queues.identities) > 0 || s.Refused != refused || s.Err != nil {
		t.Errorf("dead letters %q, refused %v, error %v", queues.identities, s.Refused, s.Err)
	}
}

// A meeting sends nothing until all senders have been called.
type meeting struct{ all *sync.WaitGroup }

func (m meeting) Send(_ context.Context, deliveries []record.Delivery) []error {
	m.all.Done()
	m.all.Wait()
	return make([]error, len(deliveries))
}

func TestOneDestinationDoesNotWaitForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if all goroutines block
		var all sync.WaitGroup
		all.Add(2)
		p := outbox.New(outbox.Config{Senders: map[string]record.Sender{"a": meeting{&all}, "b": meeting{&all}}})
		shipments := []*outbox.Shipment{{To: "a"}, {To: "b"}}
		p.Ship(t.Context(), shipments)
		if shipments[0].Err != nil || shipments[1].Err != nil {
			t.Error(shipments[0].Err, shipments[1].Err)
		}
	})
}

func TestARefusalAfterTheDeadlineIsDeadLettered(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second) // virtual time: only called in a bubble
		},
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel) // virtual time: only called in a bubble
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queues := &letters{}
				p := outbox.New(outbox.Config{Senders: map[string]record.Sender{"out": picky{}}, Queues: queues})
				ctx, cancel := end(t.Context())
				defer cancel()
				shipments := []*outbox.Shipment{{To: "out", Delivery: record.Delivery{Identity: "1"}}, {To: "out", Delivery: record.Delivery{Identity: "2"}}}
				p.Ship(ctx, shipments)
				for _, s := range shipments {
					if s.Err != nil {
						t.Errorf("%s is not settled: %v", s.Identity, s.Err)
					}
				}
				if len(queues.identities) != 2 {
					t.Errorf("dead letters: %q", queues.identities)
				}
			})
		})
	}
}
