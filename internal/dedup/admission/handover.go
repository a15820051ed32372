package admission

import (
	"context"

	"github.com/effectively-once/once/internal/record"
)

// Handover dead-letters refused messages, and returns failing held ones to their own queue. It has
// to succeed before the commit that releases them, or remembers the refusal. It is repeated for
// each plan of that commit: in the meantime another worker may have received the first copy, from
// the queue or by a redrive, and acknowledged it because the message was still held.
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
