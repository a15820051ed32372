package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// A talking server logs what a real one does, and ends.
type talking struct {
	world *world
}

func (s *talking) Run(context.Context, func(string)) error {
	m := record.Message{Stream: "orders", ID: "order-1", Group: "customer\x1b[2J7"}
	alone := record.Message{Stream: "chat", ID: "c-1"}
	d := record.Delivery{Identity: "orders/g/4", Stream: "orders", Group: "g", Number: 4}
	of := func(attrs []slog.Attr, more ...slog.Attr) []slog.Attr { return append(attrs, more...) }
	keys := s.world.keys
	log := func(level slog.Level, text string, attrs []slog.Attr) {
		r := slog.NewRecord(time.Date(2026, 3, 1, 12, 1, 3, 0, time.UTC), level, text, 0)
		r.AddAttrs(attrs...)
		if s.world.log.Enabled(context.Background(), level) {
			_ = s.world.log.Handler().Handle(context.Background(), r)
		}
	}
	next := time.Date(2026, 3, 1, 12, 1, 7, 0, time.UTC)
	failed := record.FailureAttrs(3, &record.HandlerError{Err: errors.New("database is restarting")})
	log(slog.LevelDebug, record.LogSettled, of(m.LogAttrs(keys), slog.String("outcome", "processed"), slog.Duration("took", 3*time.Millisecond)))
	log(slog.LevelDebug, record.LogSettled, of(alone.LogAttrs(keys), slog.String("outcome", "duplicate"), slog.Duration("took", time.Millisecond)))
	log(slog.LevelWarn, record.LogRetried, of(of(m.LogAttrs(keys), failed...), slog.Duration("pause", 4*time.Second)))
	log(slog.LevelWarn, record.LogRefused, of(m.LogAttrs(keys), slog.String("reason", "rejected"), slog.String("detail", "no such reservation")))
	log(slog.LevelWarn, record.LogEffectRetried, of(d.LogAttrs(keys), slog.String("destination", "shop"), slog.Any("error", errors.New("400")), slog.Int("try", 2), slog.Time("next", next)))
	log(slog.LevelError, record.LogUndeliverable, of(d.LogAttrs(keys), slog.String("destination", "shop"), slog.Any("error", errors.New("400")), slog.Int("try", 9)))
	free := record.Delivery{Identity: "free/f-1", Stream: "free"}
	log(slog.LevelWarn, record.LogEffectRetried, of(free.LogAttrs(keys), slog.String("destination", "shop"), slog.Any("error", errors.New("away")), slog.Int("try", 1)))
	log(slog.LevelWarn, "refusal not noted", m.LogAttrs(keys))
	log(slog.LevelInfo, record.LogDraining, nil)
	return nil
}

func (s *talking) Close() error { return nil }

func TestDevPrintsOneLineForEachMessageOnATerminal(t *testing.T) {
	w := newWorld(t)
	w.watched = true
	s := &talking{world: w}
	w.server = s
	const config = "testdata/files/shop.yaml"
	if code := w.once(t.Context(), "", "dev", "--config", config); code != 0 {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	want := `12:01:03 orders/customer\x1b[2J7 order-1 done 3ms -> TO
12:01:03 chat c-1 duplicate
12:01:03 orders/customer\x1b[2J7 order-1 failed (try 3), next in 4s: database is restarting
12:01:03 orders/customer\x1b[2J7 order-1 dead letter rejected: no such reservation
12:01:03 orders/g effect 4 -> shop failed (try 2), next in 4s: 400
12:01:03 orders/g effect 4 -> shop dead letter undeliverable: 400
12:01:03 free/f-1 -> shop failed (try 1): away
12:01:03 draining
`
	got := w.out.String()
	if i, j := strings.Index(got, "-> "), strings.Index(got, "\n"); i > 0 && i < j { // as configured
		got = got[:i] + "-> TO" + got[j:]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if text := w.err.String(); strings.Count(text, "msg=") != 1 || !strings.Contains(text, "refusal not noted") || strings.Contains(text, "order-1") {
		t.Errorf("the log: %s", text)
	}
	if w.once(t.Context(), "", "dev", "--config", config, "--log-keys"); !strings.Contains(w.err.String(), "key=order-1") {
		t.Errorf("with keys: %s", w.err.String())
	}
}

func TestDevLogsFailuresWithoutATerminalAndIfItIsQuiet(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		w := newWorld(t)
		w.server = &talking{world: w}
		args := []string{"dev", "--config", "testdata/files/shop.yaml"}
		if w.watched = quiet; quiet {
			args = append(args, "--quiet")
		}
		if code := w.once(t.Context(), "", args...); code != 0 || w.out.Len() > 0 {
			t.Errorf("quiet %v: exit %d, printed %s", quiet, code, w.out.String())
		}
		if text := w.err.String(); strings.Count(text, "msg=") != 7 || strings.Contains(text, "order-1") || !strings.Contains(text, "hash=") {
			t.Errorf("quiet %v: the log: %s", quiet, text)
		}
	}
}
