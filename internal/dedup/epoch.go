package dedup

import (
	"context"
	"errors"

	"github.com/effectively-once/once/internal/record"
)

// IssueEpoch returns an epoch for the source of a message in its group that no call has returned
// before. See [admission.Issuer.IssueEpoch]. If other callers ask for the same source at the same
// time, it tries again.
func (e *Engine) IssueEpoch(ctx context.Context, m record.Message, after *uint64) (uint64, error) {
	var epoch uint64
	err := e.untilFirst(ctx, func() (err error) {
		epoch, err = e.issuer.IssueEpoch(ctx, m, after)
		return err
	})
	return epoch, err
}

// CheckEpochs refuses the messages of epochs that were issued and are no longer the newest of their
// sources. See [admission.Issuer.CheckEpochs]. It reports refusals as Issue does.
func (e *Engine) CheckEpochs(ctx context.Context, messages []record.Message) []error {
	errs := e.issuer.CheckEpochs(ctx, messages)
	for i, err := range errs {
		if refused, ok := errors.AsType[*record.RefusedError](err); ok {
			e.cfg.Observe(record.Outcome{Kind: record.Rejected, Reason: refused.Reason}.Event(messages[i].Stream))
		}
	}
	return errs
}
