package process

import (
	"context"

	"github.com/effectively-once/once/internal/record"
)

// Forward is the built-in handler: it sends each message to the destinations of its stream, as it came, and keeps no state.
func Forward(destinations []string) record.Handler {
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
