package function

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// attemptTimeout is when the context of a handler ends that the ingest function calls. The caller
// waits for it: Lambda stops a function that has answered. The function has 29 s.
const attemptTimeout = 26 * time.Second

// direct returns the runner that processes messages in the ingest function, or nil if no stream is
// direct.
//
// The publish function sends the effects of a message with a group record: the engine triggers it
// before the commit, delayed, and again after the commit. Other effects are sent here.
func (s *System) direct() api.Direct {
	streams := s.pipeline.Direct(nil)
	found := false
	for _, set := range streams {
		found = found || set
	}
	if !found {
		return nil
	}
	r := direct.New(direct.Config{
		Processor: s.pipeline.Process(), Line: line{s.pipeline.Queues}, Streams: streams, Timeout: attemptTimeout, Retry: s.pipeline.MessagePause, Now: s.now,
	})
	r.Open()
	return r
}

// line reserves every place, because no queue of SQS says whether it has a message of a group. The
// streams need no order that a queue keeps, see [config.Config.CheckDirect].
type line struct{ queues *pipeline.Queues }

// Reserve implements [direct.Line].
func (l line) Reserve(*record.Message) (direct.Place, bool) { return place(l), true }

// ReserveAll implements [direct.Line].
func (l line) ReserveAll(context.Context, []record.Message) direct.Places { return places(l) }

// places are those of a batch. See place.
type places struct{ queues *pipeline.Queues }

// Has implements [direct.Places].
func (places) Has(int) bool { return true }

// Enqueue implements [direct.Places]. The streams have no order that a queue keeps.
func (p places) Enqueue(ctx context.Context, messages []direct.Queued) (ids []string, errs []error) {
	out, pauses := make([]record.Message, len(messages)), make([]time.Duration, len(messages))
	for i, m := range messages {
		out[i], pauses[i] = *m.Message, m.Pause
	}
	return make([]string, len(messages)), p.queues.Later(ctx, out, pauses)
}

// Release implements [direct.Places].
func (places) Release() {}

type place struct{ queues *pipeline.Queues }

// Enqueue puts the message on the standard queue, which delays it. The queue counts its tries from
// 1 again, and the id is not known.
func (p place) Enqueue(ctx context.Context, m record.Message, pause time.Duration) (string, error) {
	return "", p.queues.Later(ctx, []record.Message{m}, []time.Duration{pause})[0]
}

// Release implements [direct.Place].
func (place) Release() {}
