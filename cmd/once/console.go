package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// A console is a log for a person at a terminal: it prints one short line for each message
// that is done or fails, with its key, and passes all other lines on.
type console struct {
	rest   slog.Handler
	out    io.Writer
	config *config.Config
	keys   bool // other lines keep the keys of messages
}

// Enabled implements slog.Handler. The lines about messages that are done have the level DEBUG.
func (c *console) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelDebug }

// WithAttrs implements slog.Handler.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler { return c.rest.WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (c *console) WithGroup(name string) slog.Handler { return c.rest.WithGroup(name) }

// Handle implements slog.Handler.
func (c *console) Handle(ctx context.Context, r slog.Record) error {
	attrs := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.Resolve()
		return true
	})
	if text := c.line(&r, attrs); text != "" {
		_, err := fmt.Fprintln(c.out, r.Time.Format(time.TimeOnly)+" "+text)
		return err
	}
	if !c.rest.Enabled(ctx, r.Level) {
		return nil
	}
	if !c.keys {
		r = withoutKeys(r)
	}
	return c.rest.Handle(ctx, r)
}

// withoutKeys removes the keys that only the console asked for.
func withoutKeys(r slog.Record) slog.Record {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "key" && a.Key != "group_key" && a.Key != "effect" {
			out.AddAttrs(a)
		}
		return true
	})
	return out
}

// line returns the short line, or an empty text if the record has none.
func (c *console) line(r *slog.Record, attrs map[string]slog.Value) string {
	text := func(key string) string {
		v, ok := attrs[key]
		if !ok {
			return ""
		}
		return safe(v.String())
	}
	name := text("stream")
	if effect := text("effect"); effect != "" && text("group_key") == "" {
		name = effect
	}
	if group := text("group_key"); group != text("key") {
		name += "/" + group
	}
	if key := text("key"); key != "" {
		name += " " + key
	}
	switch r.Message {
	case record.LogDraining, record.LogStopped:
		return r.Message
	case record.LogSettled:
		return name + " " + c.settled(text("stream"), text("outcome"), attrs["took"])
	case record.LogRetried:
		return name + failure(r, attrs)
	case record.LogRefused:
		return name + " dead letter " + detailed(text("reason"), text("detail"))
	case record.LogEffectRetried:
		return name + effectOf(attrs) + failure(r, attrs)
	case record.LogUndeliverable:
		return name + effectOf(attrs) + " dead letter " + detailed(string(record.ReasonUndeliverable), text("error"))
	}
	return ""
}

func (c *console) settled(stream, outcome string, took slog.Value) string {
	if outcome != record.Processed.String() {
		return outcome
	}
	text := "done"
	if took.Kind() == slog.KindDuration {
		text += " " + short(took.Duration())
	}
	if to := c.config.Streams[stream].Destinations; len(to) > 0 {
		text += " -> " + strings.Join(to, ", ")
	}
	return text
}

// effectOf names an effect by its number and its destination.
func effectOf(attrs map[string]slog.Value) string {
	text := ""
	if n, ok := attrs["number"]; ok {
		text = " effect " + n.String()
	}
	return text + " -> " + safe(attrs["destination"].String())
}

// failure describes a failed try.
func failure(r *slog.Record, attrs map[string]slog.Value) string {
	text := " failed"
	if try, ok := attrs["try"]; ok {
		text += " (try " + try.String() + ")"
	}
	if pause, ok := attrs["pause"]; ok && pause.Kind() == slog.KindDuration {
		text += ", next in " + short(pause.Duration())
	}
	if next, ok := attrs["next"]; ok && next.Kind() == slog.KindTime {
		text += ", next in " + short(next.Time().Sub(r.Time))
	}
	if err, ok := attrs["error"]; ok {
		text += ": " + safe(strings.TrimPrefix(err.String(), "handle message: "))
	}
	return text
}

func detailed(reason, detail string) string {
	if detail == "" {
		return reason
	}
	return reason + ": " + strings.TrimPrefix(detail, "handle message: ")
}

// short returns a duration with as many digits as people read.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
