package admission

import (
	"context"

	"github.com/effectively-once/once/internal/record"
)

// Handover puts held messages that did not go through on the queues that they belong on: it dead-letters the refused ones, and returns the failing ones. It has to succeed before
// the commit that releases them, and it is repeated for each plan of that commit: whoever received the message again, from its queue or by a redrive, may have acknowledged it
// meanwhile for being held still.
func Handover(ctx context.Context, q record.Queues, refused []record.Refused, failing []record.Message) error {
	if len(refused) > 0 {
		if err := q.DeadLetter(ctx, refused); err != nil {
			return err
		}
	}
	if len(failing) == 0 {
		return nil
	}
	return q.Return(ctx, failing)
}
