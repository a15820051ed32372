package embedded

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
)

// keeping returns the options of the keeper of delayed messages.
func (s *System) keeping() delay.Options {
	return delay.Options{Now: s.options.Now, Log: s.options.Log, Moved: func([]time.Duration) { s.dirty.Store(true) }}
}

// move sends delayed messages that are due to their queue. It does not wait for the disk: the
// deletes of the items are behind the messages in the log.
func (s *System) move(ctx context.Context, name string, messages []queue.Message) []error {
	crash("before-move")
	defer crash("after-move")
	return s.now().pipeline.Queues.Move(ctx, name, messages)
}
