package dedup

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// Sessions returns the consumer sessions of the engine's store, whose logs are read from logs. They
// publish their effects as the engine does, so only the settings of pools and of sessions are taken
// from the configuration.
func (e *Engine) Sessions(logs record.LogReader, cfg session.Config) *session.Sessions {
	cfg.Queues, cfg.Restores, cfg.Sequenced, cfg.Recalls, cfg.LateDelay = e.cfg.Queues, e.cfg.Restores, e.cfg.Sequenced, e.cfg.Recalls, e.cfg.LateDelay
	cfg.Now, cfg.NewID, cfg.Pause, cfg.Observe, cfg.Log = e.cfg.Now, e.cfg.NewID, e.cfg.Pause, e.cfg.Observe, e.cfg.Log
	cfg.Numbered, cfg.Retain = map[string]bool{}, map[string]time.Duration{}
	for name, stream := range e.streams {
		cfg.Numbered[name], cfg.Retain[name] = stream.Admission == record.BySequence, stream.LogRetention
	}
	cfg.Feasible = func(effects []record.Effect) error { return e.publisher.Feasible(effects, nil) }
	return session.New(struct {
		record.Store
		record.LogReader
	}{e.cfg.Store, logs}, cfg)
}

// sweepSession finishes the publishing of a session's or a pool's effects.
func (e *Engine) sweepSession(ctx context.Context, key record.GroupKey) error {
	groups, _, err := e.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err == nil && groups[0].HasEffects() {
		err = e.cfg.Queues.Trigger(ctx, []record.GroupKey{key}, 0)
	}
	if err == nil && groups[0].MissingExpiry() {
		err = e.publisher.ClearLeftovers(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("sweep group %s: %w", key, err)
	}
	return nil
}
