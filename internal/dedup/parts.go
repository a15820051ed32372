package dedup

import (
	"context"
	"errors"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// The engine exports these methods of its parts.

// Publish sends the pending effects of groups. See [outbox.Publisher.Publish].
func (e *Engine) Publish(ctx context.Context, groups []record.GroupKey) []error {
	return e.publisher.Publish(ctx, groups)
}

// Deliver sends one effect again that was refused before. See [outbox.Publisher.Deliver].
func (e *Engine) Deliver(ctx context.Context, to string, d record.Delivery) error {
	return e.publisher.Deliver(ctx, to, d)
}

// Skip makes a pending effect a dead letter. See [outbox.Publisher.Skip].
func (e *Engine) Skip(ctx context.Context, key record.GroupKey, number uint64) (to []string, err error) {
	return e.publisher.Skip(ctx, key, number)
}

// SweepBlobs deletes staged objects that belong to no committed attempt. See
// [outbox.Publisher.SweepBlobs].
func (e *Engine) SweepBlobs(ctx context.Context, lister record.Lister, before time.Time) (int, error) {
	return e.publisher.SweepBlobs(ctx, lister, before)
}

// Issue writes the token of a message before the message is put on a queue. See
// [admission.Issuer.Issue]. It reports a refusal to the observer, because no worker will see the
// message.
func (e *Engine) Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error) {
	token, fresh, err = e.issuer.Issue(ctx, m)
	if refused, ok := errors.AsType[*record.RefusedError](err); ok {
		e.cfg.Observe(record.Outcome{Kind: record.Rejected, Reason: refused.Reason}.Event(m.Stream))
	}
	return token, fresh, err
}

// IssueAll writes the tokens of many messages together. See [admission.Issuer.IssueAll]. It reports
// refusals as Issue does.
func (e *Engine) IssueAll(ctx context.Context, messages []record.Message) []admission.Issued {
	results := e.issuer.IssueAll(ctx, messages)
	for i := range results {
		if refused, ok := errors.AsType[*record.RefusedError](results[i].Err); ok {
			e.cfg.Observe(record.Outcome{Kind: record.Rejected, Reason: refused.Reason}.Event(messages[i].Stream))
		}
	}
	return results
}

// Refuse puts messages on the dead-letter queue and records the reason in their tokens. See
// [admission.Issuer.Refuse].
func (e *Engine) Refuse(ctx context.Context, refused []record.Refused) error {
	return e.issuer.Refuse(ctx, refused)
}

// Status looks a message up by its identity. See [admission.Issuer.Status].
func (e *Engine) Status(ctx context.Context, m record.Message) (admission.State, error) {
	return e.issuer.Status(ctx, m)
}
