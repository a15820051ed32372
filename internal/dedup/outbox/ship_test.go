package outbox_test

import (
	"context"
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
			return context.WithTimeout(ctx, time.Second)
		},
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
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
