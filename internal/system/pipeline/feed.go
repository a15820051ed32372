package pipeline

import (
	"context"

	"github.com/effectively-once/once/internal/destination/stream"
	"github.com/effectively-once/once/internal/record"
)

// A feed puts messages on their ingress queues for the stream destinations.
type feed struct{ *Queues }

var _ stream.Queue = feed{}

// Enqueue puts messages on their ingress queues. See [stream.Queue].
func (f feed) Enqueue(ctx context.Context, messages []record.Message) []error {
	return f.EnqueueAll(ctx, messages)
}
