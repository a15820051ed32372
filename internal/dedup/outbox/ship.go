package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// errNoDestination says that an effect names a destination that is not configured. The effect stays
// pending until there is one.
var errNoDestination = errors.New("no such destination")

var errNoAnswer = errors.New("the destination did not answer for each delivery")

// A Shipment is one delivery to one destination.
type Shipment struct {
	record.Delivery
	To string
	// Err is set by Ship: why the delivery is not settled, or nil if it was sent, or dead-lettered
	// because the destination will never take it.
	Err error
	// If Hold is set, a refused delivery does not become a dead letter: Ship sets Refused, and the
	// caller decides. It is for effects without a number, because no later effect waits for them.
	Hold    bool
	Refused *record.RefusedError

	number uint64 // of the pending entry
	effect int
}

// newShipments returns the shipments of one effect that are not sent yet, one for each destination.
func (p *Publisher) newShipments(g *record.Group, entry *record.Pending, i int) ([]*Shipment, error) {
	n, f := entry.Number+uint64(i), &entry.Effects[i] //nolint:gosec // an index
	epoch, err := p.cfg.Restores.Epoch(g.Incarnation, n)
	if err != nil {
		return nil, fmt.Errorf("send effects: %w", err)
	}
	var out []*Shipment
	for _, to := range f.To {
		if slices.Contains(entry.Sent, record.Sent{Effect: i, To: to}) {
			continue
		}
		s := &Shipment{To: to, number: entry.Number, effect: i}
		if len(out) > 0 {
			s.Delivery = out[0].Delivery
		} else {
			m := record.Message{Principal: entry.Principal, Stream: g.Key.Stream, ID: entry.Identity}
			s.Delivery = record.Delivery{
				Identity: g.Key.Path() + "/" + strconv.FormatUint(n, 10), Stream: g.Key.Stream, Group: g.Key.Group, Number: n, Incarnation: epoch, Hash: m.Hash(),
				Target: f.Target(g.Key), Committed: entry.Committed, Effect: *f,
			}
		}
		s.Sequence = f.Chain[to]
		out = append(out, s)
	}
	return out, nil
}

// Feasible returns an error for effects that could never be published, and for a reply that is too
// large for a token, before they are committed.
func (p *Publisher) Feasible(effects []record.Effect, reply *record.Reply) error {
	if size := reply.Size(); size > record.MaxReply {
		return fmt.Errorf("reply of %d bytes, headers included: at most %d", size, record.MaxReply)
	}
	most := record.MaxEffect
	if p.cfg.Large {
		most = record.LargeEffect
	}
	for _, f := range effects {
		for _, to := range f.To {
			if f.Timer != "" {
				continue
			}
			if f.Delayed() && p.cfg.Numbered[to] {
				return fmt.Errorf("send to %q after a delay: %w", to, errNumbered)
			}
			if p.cfg.Senders[to] == nil {
				return fmt.Errorf("send to %q: %w", to, errNoDestination)
			}
		}
		m := record.Message{Body: f.Body, ContentType: f.ContentType, Headers: f.Headers}
		if m.Size() > most {
			return fmt.Errorf("send effect of %d bytes, headers included: at most %d", m.Size(), most)
		}
		if wrong := m.WrongHeaders(); wrong != nil {
			return fmt.Errorf("send effect: %s", wrong.Error())
		}
		if err := p.delayable(&f); err != nil {
			return err
		}
		if f.Blob == nil {
			continue
		}
		if p.cfg.Blobs == nil {
			return errors.New("stage blob: no blob store is configured")
		}
		if err := p.cfg.Blobs.Check(f.Blob.Key); err != nil {
			return fmt.Errorf("stage blob: %w", err)
		}
	}
	return nil
}

// Ship sends to all destinations concurrently, in order to each, and sets each shipment's Err.
// Delayed effects go to the queue that holds them, and count as sent when they are there.
func (p *Publisher) Ship(ctx context.Context, all []*Shipment) {
	byDestination := map[string][]*Shipment{}
	var delayed []*Shipment
	for _, s := range all {
		if s.Effect.Delayed() {
			delayed = append(delayed, s)
			continue
		}
		byDestination[s.To] = append(byDestination[s.To], s)
	}
	p.delay(ctx, delayed)
	var wg sync.WaitGroup
	for to, list := range byDestination {
		sender, ok := p.cfg.Senders[to]
		if !ok {
			for _, s := range list {
				s.Err = fmt.Errorf("send to %s: %w", to, errNoDestination)
			}
			continue
		}
		if len(byDestination) == 1 {
			p.shipTo(ctx, sender, list)
			continue
		}
		wg.Go(func() { p.shipTo(ctx, sender, list) })
	}
	wg.Wait()
}

// shipTo sends to one destination. A refused delivery becomes a dead letter before those behind it
// are sent: if there is no letter, it is still pending, and they would overtake it.
func (p *Publisher) shipTo(ctx context.Context, sender record.Sender, list []*Shipment) {
	for len(list) > 0 {
		list = p.shipRound(ctx, sender, list)
	}
}

// shipRound sends once, and returns the shipments behind new dead letters: the sender did not send
// them.
func (p *Publisher) shipRound(ctx context.Context, sender record.Sender, list []*Shipment) (behind []*Shipment) {
	deliveries := make([]record.Delivery, len(list))
	for i, s := range list {
		deliveries[i] = s.Delivery
	}
	errs := sender.Send(ctx, deliveries)
	if slices.ContainsFunc(errs, isRefused) { // an unrecorded refusal would be sent again, and refused again
		var cancel context.CancelFunc
		ctx, cancel = WithGrace(ctx)
		defer cancel()
	}
	// true if the last failed delivery of the group is a dead letter now
	freed := map[record.GroupKey]bool{}
	blocked := fmt.Errorf("send to %s: %w", list[0].To, record.ErrBlocked) // of most that fail
	for i, s := range list {
		err := errNoAnswer
		if len(errs) == len(list) {
			err = errs[i]
		}
		if err == nil {
			continue
		}
		key := record.GroupKey{Stream: s.Stream, Group: s.Group}
		if freed[key] && errors.Is(err, record.ErrBlocked) {
			behind = append(behind, s)
			continue
		}
		refused, ok := errors.AsType[*record.RefusedError](err)
		if ok {
			if s.Refused = refused; s.Hold {
				continue
			}
			err = p.DeadLetter(ctx, s)
		}
		freed[key] = err == nil
		switch {
		case err == record.ErrBlocked: //nolint:errorlint // not what wraps it
			s.Err = blocked
		case err != nil:
			s.Err = fmt.Errorf("send to %s: %w", s.To, err)
		}
	}
	return behind
}

func isRefused(err error) bool { return errors.As(err, new(*record.RefusedError)) }

// DeadLetter makes a refused shipment a dead letter.
func (p *Publisher) DeadLetter(ctx context.Context, s *Shipment) error {
	d := s.Delivery
	return p.cfg.Queues.DeadLetter(ctx, []record.Refused{{Delivery: &d, To: s.To, Reason: s.Refused.Reason, Detail: s.Refused.Detail}})
}

// Deliver sends one effect that was delayed, or refused before, under its identity.
func (p *Publisher) Deliver(ctx context.Context, to string, d record.Delivery) error {
	d.Redriven, d.Effect.NotBefore = true, time.Time{}
	s := &Shipment{Delivery: d, To: to}
	p.Ship(ctx, []*Shipment{s})
	return s.Err
}
