package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// maxPending bounds the effects that wait to be published in one record, in bytes.
const maxPending = 256 << 10

var errNoQueues = errors.New("this system has no queues for effects and dead letters")

// checkEffects returns a [*record.InvalidError] for effects that can never be published.
func (s *Sessions) checkEffects(effects []record.Effect) error {
	if len(effects) == 0 {
		return nil
	}
	if s.cfg.Queues == nil {
		return errNoQueues
	}
	for i := range effects {
		if len(effects[i].To) == 0 || effects[i].Blob != nil {
			return &record.InvalidError{Field: "effects", Rule: "must each be a message to at least one destination"}
		}
	}
	if err := s.cfg.Feasible(effects); err != nil {
		return &record.InvalidError{Field: "effects", Rule: "can't be published: " + err.Error()}
	}
	if entry := (record.Pending{Effects: effects}); entry.Size() > maxPending {
		return &record.InvalidError{Field: "effects", Rule: fmt.Sprintf("must have at most %d bytes together", maxPending)}
	}
	return nil
}

// emit adds effects to a record that is about to be written. They are numbered as those of other
// groups: their identities are the path of the record and the number.
func (s *Sessions) emit(g *record.Group, identity string, effects []record.Effect) error {
	if len(effects) == 0 {
		return nil
	}
	if err := s.cfg.Restores.Apply(g, false); err != nil {
		return fmt.Errorf("add effects: %w", err)
	}
	entry := record.Pending{
		Number: g.Last + 1, Identity: identity, Attempt: s.cfg.NewID(), Effects: append([]record.Effect(nil), effects...),
		Committed: s.cfg.Now().Truncate(time.Second).UTC(),
	}
	if g.PendingBytes()+entry.Size() > maxPending {
		return fmt.Errorf("add effects: %w", record.ErrFull)
	}
	if !g.TakesTargets(effects, s.cfg.Sequenced, record.DefaultLimits()) {
		return &record.InvalidError{Field: "effects", Rule: "go to more groups of other streams than a session can number"}
	}
	for i := range entry.Effects {
		g.Chain(&entry.Effects[i], s.cfg.Sequenced)
	}
	g.Last += uint64(len(effects))
	g.Pending = append(g.Pending, entry)
	return nil
}

// triggerEarly asks for publishing before effects are committed, after a delay: if the process dies
// after the commit, nobody else may ask. A system that looks at all groups when it starts needs no
// such trigger.
func (s *Sessions) triggerEarly(ctx context.Context, key record.GroupKey, effects []record.Effect) error {
	if len(effects) == 0 || s.cfg.Recalls {
		return nil
	}
	return s.trigger(ctx, key, s.cfg.LateDelay)
}

// triggerPending asks for publishing of the pending effects of a record.
func (s *Sessions) triggerPending(ctx context.Context, g *record.Group) error {
	if !g.HasEffects() {
		return nil
	}
	return s.trigger(ctx, g.Key, 0)
}

func (s *Sessions) trigger(ctx context.Context, key record.GroupKey, delay time.Duration) error {
	if s.cfg.Queues == nil {
		return errNoQueues
	}
	if err := s.cfg.Queues.Trigger(ctx, []record.GroupKey{key}, delay); err != nil {
		return fmt.Errorf("trigger publishing: %w", err)
	}
	return nil
}
