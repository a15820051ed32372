// Package forward is the built-in handler of streams that no code handles.
package forward

import (
	"context"

	"github.com/effectively-once/once/internal/record"
)

// To makes a handler that sends each message to destinations, as it came, and keeps no state.
func To(destinations []string) record.Handler {
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
