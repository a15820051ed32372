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
// it was there. The letters that stay are hidden, as after [Redrive].
func Drop(ctx context.Context, w *Walk, o Options) (Dropped, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var out Dropped
	var err error
	out.Through, err = w.Run(ctx, func(_ context.Context, l *Letter) (Verdict, bool) {
		if !l.Matches(o.Reason, o.ID) || l.Sent.After(o.Until) {
			out.Left++
			return Keep, true
		}
		info := l.Info()
		out.Dropped++
		if len(out.Letters) < maxDropped {
			out.Letters = append(out.Letters, info)
		}
		o.Log.Warn("dead letter dropped", "queue", l.Queue, "message_id", l.ID, "stream", info.Stream, "reason", info.Reason, "sent", l.Sent)
		return Remove, o.Max == 0 || out.Dropped < o.Max
	})
	return out, err
}
