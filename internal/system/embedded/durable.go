package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// durable is the engine for callers without a queue. Many writes do not wait for the disk: if a
// crash loses them, a queue delivers the messages again. These callers get only answers that a
// crash can't take back.
type durable struct {
	live
	system *System
}

func (d durable) sync() error {
	if err := d.system.db.LogData(nil, pebble.Sync); err != nil {
		return fmt.Errorf("sync writes: %w", err)
	}
	return nil
}

// Process calls the engine's Process, and waits for the disk.
func (d durable) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	outcomes := d.live.Process(ctx, messages)
	if err := d.sync(); err != nil {
		for i := range outcomes {
			outcomes[i] = record.Outcome{Kind: record.Retry, Err: err}
		}
	}
	return outcomes
}

// Call calls the engine's Call, and waits for the disk.
func (d durable) Call(ctx context.Context, m record.Message) record.Outcome {
	outcome := d.live.Call(ctx, m)
	if err := d.sync(); err != nil {
		return record.Outcome{Kind: record.Retry, Err: err}
	}
	return outcome
}

// A logged engine is for callers outside of the system. Nobody else logs the failures of handlers
// that they run, and the stacks of panics.
type logged struct{ durable }

// Process calls the engine's Process, and logs failures.
func (l logged) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	outcomes := l.durable.Process(ctx, messages)
	for i := range outcomes {
		l.log(ctx, &messages[i], outcomes[i].Err)
	}
	return outcomes
}

// Call calls the engine's Call, and logs a failure.
func (l logged) Call(ctx context.Context, m record.Message) record.Outcome {
	outcome := l.durable.Call(ctx, m)
	l.log(ctx, &m, outcome.Err)
	return outcome
}

func (l logged) log(ctx context.Context, m *record.Message, err error) {
	o := l.system.options
	if err != nil && !errors.Is(err, record.ErrBlocked) { // one line for each failure, not for those behind it
		o.Log.LogAttrs(ctx, slog.LevelWarn, record.LogRetried, append(m.LogAttrs(o.LogKeys), record.FailureAttrs(m.Try, err)...)...)
	}
}

// Issue calls the engine's Issue. If it found that the message is done, that is durable: a message
// that was processed without the queue is nowhere else.
func (d durable) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	token, fresh, err := d.live.Issue(ctx, m)
	if err == nil && token.State == record.Done {
		err = d.sync()
	}
	return token, fresh, err
}

// IssueAll calls the engine's IssueAll. What it found done is durable, see Issue.
func (d durable) IssueAll(ctx context.Context, messages []record.Message) []admission.Issued {
	results := d.live.IssueAll(ctx, messages)
	if !slices.ContainsFunc(results, func(r admission.Issued) bool { return r.Token.State == record.Done }) {
		return results
	}
	if err := d.sync(); err != nil {
		for i := range results {
			results[i] = admission.Issued{Err: err}
		}
	}
	return results
}

// Status calls the engine's Status. If it found that the message is done or rejected, or a reply,
// that is durable.
func (d durable) Status(ctx context.Context, m record.Message) (admission.State, error) {
	state, err := d.live.Status(ctx, m)
	if err == nil && (state.Reply != nil || state.Status == admission.StatusDone || state.Status == admission.StatusRejected) {
		err = d.sync()
	}
	return state, err
}
