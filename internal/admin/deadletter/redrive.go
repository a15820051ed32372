package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Back sends letters to their queues. A nil error means that the queue holds the letter durably.
// [pipeline.Back] implements it.
type Back interface {
	// Redrive sends a message to its ingress queue, or an effect to the publish queue.
	Redrive(ctx context.Context, r record.Refused) error
	// Trigger requests publishing, as [record.Queues] does.
	Trigger(ctx context.Context, groups []record.GroupKey, delay time.Duration) error
	// Answered reports whether the letter's caller may have been told that its message is refused,
	// and Reopen takes that answer back, and sets when the message was accepted. See
	// [dedup.Engine].
	Answered(ctx context.Context, r record.Refused) (bool, error)
	Reopen(ctx context.Context, m *record.Message) error
}

// Options select the letters to redrive. Zero fields take the defaults in their comments.
type Options struct {
	Filter
	// Max is the largest number of letters to redrive. Defaults to all.
	Max int
	// Until leaves out letters that were sent later, because they may have been redriven already,
	// and refused again. Required.
	Until time.Time
	// Answered redrives letters whose callers were answered, too.
	Answered bool
	// By names the operator in the log.
	By string
	// Log defaults to discarding.
	Log *slog.Logger
}

// A Result counts the letters of a run by what happened to them.
type Result struct {
	// Redriven letters were put back; Left did not match, or were sent after Until; Answered were
	// left because their callers were answered; Failed could not be put back.
	Redriven, Left, Answered, Failed int
	// Failures are the reasons of the first failed letters.
	Failures []Failure
	// Through is true if the run saw every letter, and false if Max or an error ended it.
	Through bool
}

// A Failure is the reason why one letter could not be redriven.
type Failure struct {
	MessageID string `json:"message_id"` // the queue's id
	Stream    string `json:"stream,omitempty"`
	ID        string `json:"id,omitempty"` // of the message or effect
	Error     string `json:"error"`
}

// Info returns the failure in the form for people and scripts.
func (f Failure) Info(queue string) admin.RedriveFailure {
	return admin.RedriveFailure{Queue: queue, MessageID: f.MessageID, Stream: f.Stream, ID: f.ID, Error: f.Error}
}

const (
	// maxFailures limits the failures of one Redrive: a function returns at most 6 MB.
	maxFailures = 2000
	// maxError limits the text of one failure, in bytes.
	maxError = 500
)

// Redrive redrives the letters of a walk: it sends each to its queue, and when that has answered,
// deletes it from the dead-letter queue. Letters that stay are still hidden. Release them, unless
// the next run follows immediately and should see other letters.
func Redrive(ctx context.Context, w *Walk, back Back, o Options) (Result, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &redrive{Options: o, back: back, sent: map[string]bool{}}
	var err error
	r.Through, err = w.Run(ctx, r.visit)
	return r.Result, err
}

type redrive struct {
	Options
	Result
	back Back
	sent map[string]bool // what this run has put back, by identity and content
}

func (r *redrive) visit(ctx context.Context, l *Letter) (v Verdict, more bool) {
	if !l.Matches(r.Filter) || l.Sent.After(r.Until) {
		r.Left++
		return Keep, true
	}
	same := wire.LetterIdentity(&l.Refused)
	if content := wire.LetterContent(&l.Refused); same != "" {
		same += string(content[:]) + fmt.Sprint(wire.Unprocessable(l.Refused.Reason))
	}
	if l.Err == nil && r.sent[same] { // a copy
		r.Redriven++
		return Remove, r.Max == 0 || r.Redriven < r.Max
	}
	switch err := r.putBack(ctx, l); {
	case errors.Is(err, errAnswered):
		r.Result.Answered++
		return Keep, true
	case err == nil:
		if r.Redriven++; same != "" {
			r.sent[same] = true
		}
		return Remove, r.Max == 0 || r.Redriven < r.Max
	// the deadline has passed: whether it was sent does not matter for the next run
	case ctx.Err() != nil:
		return Keep, false
	default:
		r.failed(l, err)
		return Keep, true
	}
}

func (r *redrive) failed(l *Letter, err error) {
	r.Failed++
	if len(r.Failures) < maxFailures {
		info := l.Info()
		text := err.Error()
		cut(&text, maxError)
		r.Failures = append(r.Failures, Failure{MessageID: l.ID, Stream: info.Stream, ID: info.Name(), Error: text})
	}
	r.Log.Warn("dead letter not redriven", "queue", l.Queue, "message_id", l.ID, "error", err)
}

// errAnswered says that a letter stays because its caller was answered.
var errAnswered = errors.New("its caller was answered")

// putBack sends a letter to its queue.
func (r *redrive) putBack(ctx context.Context, l *Letter) error {
	send := func() error { return r.back.Redrive(ctx, l.Refused) }
	if errors.Is(l.Err, wire.ErrTrigger) {
		t, err := wire.FromTrigger(&l.Delivery)
		l.Err = err
		send = func() error { return r.back.Trigger(ctx, []record.GroupKey{t.Group}, 0) }
	}
	if l.Err != nil {
		return fmt.Errorf("read dead letter: %w", l.Err)
	}
	answered, err := r.back.Answered(ctx, l.Refused)
	switch {
	case err != nil:
		return err
	case answered && !r.Options.Answered:
		return errAnswered
	case answered:
		if err := r.back.Reopen(ctx, &l.Refused.Message); err != nil {
			return err
		}
	}
	if err := send(); err != nil {
		return fmt.Errorf("send back: %w", err)
	}
	if answered {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "dead letter put back though its caller was answered", append(l.Refused.Message.LogAttrs(false),
			slog.String("by", r.By), slog.String("queue", l.Queue), slog.String("message_id", l.ID), slog.String("reason", l.Reason()))...)
	}
	return nil
}
