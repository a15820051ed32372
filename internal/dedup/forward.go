package dedup

import (
	"context"

	"github.com/effectively-once/once/internal/record"
)

// ForwardTo returns the built-in handler of streams without code: it sends each message unchanged
// to the destinations, and keeps no state.
func ForwardTo(destinations []string) record.Handler {
	return func(_ context.Context, a *record.Attempt, m record.Message) error {
		if len(destinations) == 0 {
			return nil
		}
		a.Send(record.Effect{
			To: destinations, ID: m.Identity(), Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence,
			ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
		})
		return nil
	}
}
