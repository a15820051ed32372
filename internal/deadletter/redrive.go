package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// Back are the ways to the queues where letters belong. A nil error means that the queue has it, durably. [pipeline.Queues] has them.
type Back interface {
	// Redrive sends a message to its ingress queue, or an effect to the publish queue.
	Redrive(ctx context.Context, r record.Refused) error
	// Trigger asks for publishing, as [record.Queues] does.
	Trigger(ctx context.Context, groups []record.GroupKey, delay time.Duration) error
}

// Options select what is put back. Zero fields take the defaults in their comments.
type Options struct {
	// Reason keeps to letters with that reason. Defaults to all.
	Reason string
	// Max is how many are put back at most. Defaults to all.
	Max int
	// Until leaves what was sent later: it may have been put back already, and refused again. Required.
	Until time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

// A Result tells what became of the letters that were looked at.
type Result struct {
	// Redriven were put back; Left did not match, or came too late; Failed could not be put back.
	Redriven, Left, Failed int
	// Failures say why of the first of the failed ones.
	Failures []Failure
	// Through is true where the run saw everything, and false where Max, or an error, ended it.
	Through bool
}

// A Failure is why one letter could not be put back.
type Failure struct {
	MessageID string `json:"message_id"` // the queue's
	Error     string `json:"error"`
}

// maxFailures bounds what is told of failures, which often have one cause.
const maxFailures = 20

// Redrive puts back the letters of a walk: first on the queue that they came from, and when that has answered, off the dead-letter queue. What stays is still hidden:
// release it, unless somebody goes on at once, and wants to see others.
func Redrive(ctx context.Context, w *Walk, back Back, o Options) (Result, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &redrive{Options: o, back: back}
	var err error
	r.Through, err = w.Run(ctx, r.visit)
	return r.Result, err
}

type redrive struct {
	Options
	Result
	back Back
}

func (r *redrive) visit(ctx context.Context, l *Letter) (v Verdict, more bool) {
	if r.Reason != "" && r.Reason != l.Reason() || l.Sent.After(r.Until) {
		r.Left++
		return Keep, true
	}
	switch err := putBack(ctx, r.back, l); {
	case err == nil:
		r.Redriven++
		return Remove, r.Max == 0 || r.Redriven < r.Max
	case ctx.Err() != nil: // its time was over: whether it was sent, the next run need not know
		return Keep, false
	default:
		r.failed(l, err)
		return Keep, true
	}
}

func (r *redrive) failed(l *Letter, err error) {
	r.Failed++
	if len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, Failure{l.ID, err.Error()})
	}
	r.Log.Warn("dead letter not redriven", "queue", l.Queue, "message_id", l.ID, "error", err)
}

// putBack sends a letter to where it belongs.
func putBack(ctx context.Context, back Back, l *Letter) error {
	send := func() error { return back.Redrive(ctx, l.Refused) }
	if errors.Is(l.Err, wire.ErrTrigger) {
		t, err := wire.FromTrigger(events.SQSMessage{Body: l.Body})
		l.Err = err
		send = func() error { return back.Trigger(ctx, []record.GroupKey{t.Group}, 0) }
	}
	if l.Err != nil {
		return fmt.Errorf("read dead letter: %w", l.Err)
	}
	if err := send(); err != nil {
		return fmt.Errorf("send back: %w", err)
	}
	return nil
}
