package local

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// durable is the engine for callers that no queue stands behind. Much is written without waiting for the disk, because what a crash takes back a queue delivers again; these callers
// are told of nothing that a crash could take back.
type durable struct {
	*dedup.Engine
	system *System
}

func (d durable) sync() error {
	if err := d.system.db.LogData(nil, pebble.Sync); err != nil {
		return fmt.Errorf("sync writes: %w", err)
	}
	return nil
}

// Process is the engine's, and waits for the disk.
func (d durable) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	outcomes := d.Engine.Process(ctx, messages)
	if err := d.sync(); err != nil {
		for i := range outcomes {
			outcomes[i] = record.Outcome{Kind: record.Retry, Err: err}
		}
	}
	return outcomes
}

// Call is the engine's, and waits for the disk.
func (d durable) Call(ctx context.Context, m record.Message) record.Outcome {
	outcome := d.Engine.Call(ctx, m)
	if err := d.sync(); err != nil {
		return record.Outcome{Kind: record.Retry, Err: err}
	}
	return outcome
}

// Issue is the engine's. A reply that it found is durable.
func (d durable) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	token, fresh, err := d.Engine.Issue(ctx, m)
	if err == nil && token.Reply != nil {
		err = d.sync()
	}
	return token, fresh, err
}

// Status is the engine's. A reply that it found is durable.
func (d durable) Status(ctx context.Context, m record.Message) (admission.State, error) {
	state, err := d.Engine.Status(ctx, m)
	if err == nil && state.Reply != nil {
		err = d.sync()
	}
	return state, err
}
