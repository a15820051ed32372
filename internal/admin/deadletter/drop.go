package deadletter

import (
	"context"
	"log/slog"

	"github.com/effectively-once/once/internal/admin"
)

// maxDropped limits the letters that one Drop describes.
const maxDropped = 1000

// Dropped describes the letters that a Drop deleted.
type Dropped struct {
	// Dropped is the number of deleted letters; Left the number of those that did not match, or
	// were sent after Until.
	Dropped, Left int
	// Letters describes the first deleted letters.
	Letters []admin.DeadLetter
	// Through is true if the run saw every letter, and false if Max or an error ended it.
	Through bool
}

// Drop deletes the letters of a walk that match. Each is logged: afterwards nothing else shows that
// it was there. The letters that stay are hidden, as after [Redrive]. A letter counts as deleted
// when its queue has answered; if the answer is lost, it may be gone without being counted, and the
// log has it.
func Drop(ctx context.Context, w *Walk, o Options) (Dropped, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var out Dropped
	w.Removed = func(l *Letter, err error) {
		o.logDropped(l, err)
		if err != nil {
			return
		}
		out.Dropped++
		if len(out.Letters) < maxDropped {
			out.Letters = append(out.Letters, l.Info())
		}
	}
	var err error
	chosen := 0
	out.Through, err = w.Run(ctx, func(_ context.Context, l *Letter) (Verdict, bool) {
		if !l.Matches(o.Filter) || l.Sent.After(o.Until) {
			out.Left++
			return Keep, true
		}
		chosen++
		return Remove, o.Max == 0 || chosen < o.Max
	})
	return out, err
}

// logDropped logs who deleted which letter.
func (o *Options) logDropped(l *Letter, err error) {
	attrs := l.Refused.Message.LogAttrs(false)
	if d := l.Refused.Delivery; d != nil {
		attrs = d.LogAttrs(false)
	}
	attrs = append(attrs, slog.String("by", o.By), slog.String("queue", l.Queue), slog.String("message_id", l.ID), slog.String("reason", l.Reason()), slog.Time("sent", l.Sent))
	if err != nil {
		o.Log.LogAttrs(context.Background(), slog.LevelWarn, "dead letter not dropped, or the answer of its queue was lost", append(attrs, slog.Any("error", err))...)
		return
	}
	o.Log.LogAttrs(context.Background(), slog.LevelWarn, "dead letter dropped", attrs...)
}
