package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// errNumbered says that an effect can't be delayed, because a delayed effect has no number.
var errNumbered = errors.New("the destination is ordered by numbers, and a delayed effect has none")

// longest returns the longest names that an effect can have. JSON needs six bytes for each of theirs.
func longest() record.GroupKey {
	return record.GroupKey{Stream: strings.Repeat("s", record.MaxStreamName), Group: strings.Repeat("\x01", record.MaxName)}
}

// delayable returns an error if the queues can't hold a delayed effect, or the message of a timer.
// The effect has no identity yet, so the longest one is checked.
func (p *Publisher) delayable(f *record.Effect) error {
	if p.cfg.CheckDelay == nil || !f.Delayed() {
		return nil
	}
	key := longest()
	for _, to := range f.To {
		s := &Shipment{To: to, Delivery: record.Delivery{
			Identity: key.Path() + "/" + strconv.FormatUint(math.MaxUint64, 10), Stream: key.Stream, Group: key.Group,
			Number: math.MaxUint64, Incarnation: math.MaxUint64, Target: key.Group, Committed: f.NotBefore, Effect: *f,
		}}
		d := s.delayed()
		if err := p.cfg.CheckDelay(&d); err != nil {
			if f.Timer != "" {
				return fmt.Errorf("set timer %q: %w", f.Timer, err)
			}
			return fmt.Errorf("send to %q after a delay: %w", to, err)
		}
	}
	return nil
}

// delay hands shipments to the queue that holds them until they are due, and sets each one's Err.
func (p *Publisher) delay(ctx context.Context, list []*Shipment) {
	if len(list) == 0 {
		return
	}
	delayed := make([]record.Delayed, len(list))
	for i, s := range list {
		delayed[i] = s.delayed()
	}
	for i, err := range record.ErrorsOf(p.cfg.Queues.Delay(ctx, delayed), len(list)) {
		if err != nil {
			list[i].Err = fmt.Errorf("delay effect to %s: %w", list[i].To, err)
		}
	}
}

// delayed returns a shipment in the form of the queue.
func (s *Shipment) delayed() record.Delayed {
	f := &s.Effect
	if f.Timer == "" {
		d := s.Delivery
		return record.Delayed{NotBefore: f.NotBefore, Delivery: &d, To: s.To}
	}
	return record.Delayed{NotBefore: f.NotBefore, Message: record.Message{
		Stream: s.Stream, Group: s.Group, ID: record.TimerID(s.Incarnation, s.Number), Timer: f.Timer, TimerNumber: s.Number,
		Via: f.Via, ContentType: f.ContentType, Headers: f.Headers, Body: f.Body, Accepted: f.NotBefore, NotBefore: f.NotBefore,
	}}
}
