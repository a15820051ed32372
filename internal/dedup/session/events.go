package session

import (
	"context"
	"log/slog"

	"github.com/effectively-once/once/internal/record"
)

func (s *Sessions) observe(name record.EventName, stream string, count int) {
	s.cfg.Observe(record.Event{Name: name, Stream: stream, Count: count})
}

// attrs returns what each log line about a session has.
func (id ID) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("stream", id.Stream)}
	if !id.pooled() {
		attrs = id.logKey().LogAttrs(false)
	}
	return append(attrs, slog.String("session", id.Name))
}

// tookOver reports that a session was taken from a holder that had not released it.
func (s *Sessions) tookOver(ctx context.Context, id ID, from, to string) {
	s.observe(record.EventTakeover, id.Stream, 1)
	s.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "session taken over", append(id.attrs(), slog.String("from", from), slog.String("holder", to))...)
}

// stopped reports that a consumer stops, because the tries of an entry have failed too often.
func (s *Sessions) stopped(ctx context.Context, id ID, f *Failure) {
	s.observe(record.EventStopped, id.Stream, 1)
	s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "session stopped: an entry has failed too often", append(id.attrs(), slog.Uint64("number", f.At))...)
}
