package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/process"
	"github.com/effectively-once/once/internal/system/publish"
)

// A failing store makes the n-th call of the store below it fail with that store's own error, by
// calling it with a context that has ended.
type failing struct {
	record.Store
	left atomic.Int64
}

func (f *failing) context(ctx context.Context) context.Context {
	if f.left.Add(-1) != 0 {
		return ctx
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (f *failing) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	return f.Store.Load(f.context(ctx), groups, tokens)
}

func (f *failing) Commit(ctx context.Context, c record.Commit) error {
	return f.Store.Commit(f.context(ctx), c)
}

func (f *failing) Clear(ctx context.Context, c record.Clear) error {
	return f.Store.Clear(f.context(ctx), c)
}

func (f *failing) MarkDone(ctx context.Context, tokens []record.Token) error {
	return f.Store.MarkDone(f.context(ctx), tokens)
}

func (f *failing) Held(ctx context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	return f.Store.Held(f.context(ctx), from, limit)
}

func (f *failing) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	return f.Store.SwapToken(f.context(ctx), old, next)
}

// nowhere implements the queues and the destination of an engine, and drops everything.
type nowhere struct{}

func (nowhere) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (nowhere) Return(context.Context, []record.Message) error                  { return nil }
func (nowhere) DeadLetter(context.Context, []record.Refused) error              { return nil }
func (nowhere) Delay(context.Context, []record.Delayed) error                   { return nil }
func (nowhere) Send(_ context.Context, d []record.Delivery) []error             { return make([]error, len(d)) }

const (
	secretKey  = "key-7f3a"
	secretBody = "body-91cc"
)

// handle sends its message, but refuses or fails some.
func handle(_ context.Context, a *record.Attempt, m record.Message) error {
	switch m.Headers["do"] {
	case "refuse":
		return &record.RejectError{Detail: "no", Err: errors.New("not at all")}
	case "fail":
		return errors.New("not now")
	}
	a.State = m.Body
	a.Send(record.Effect{To: []string{"out"}, Body: m.Body})
	return nil
}

func TestTheLogHasNoKeysAndNoBodies(t *testing.T) {
	stores := map[string]func() record.Store{
		"memstore": func() record.Store { return memstore.New(time.Now) },
		"pebblestore": func() record.Store {
			db, err := pebbledb.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return pebblestore.New(db, pebblestore.Options{})
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			faults := 0
			for n := int64(1); n <= 25; n++ {
				store := &failing{Store: open()}
				store.left.Store(n)
				log := run(t, store)
				for _, secret := range []string{secretKey, secretBody} {
					if strings.Contains(log, secret) {
						t.Fatalf("fault %d: the log has %s:\n%s", n, secret, log)
					}
				}
				faults += strings.Count(log, "context canceled")
			}
			if faults == 0 {
				t.Error("no fault was logged")
			}
		})
	}
}

// run processes and publishes messages of all kinds and returns the log.
func run(t *testing.T, store record.Store) string {
	t.Helper()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	engine, err := dedup.New(dedup.Config{
		Store: store, Queues: nowhere{}, Senders: map[string]record.Sender{"out": nowhere{}}, Log: log,
		Pause: func(context.Context, int) error { return errors.New("no second round") },
		Streams: []record.Stream{
			{Name: "orders", Handler: handle}, {Name: "chat", Admission: record.BySequence, Handler: handle},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	decode := func(d *queue.Delivery) (record.Message, error) {
		decoded, _, err := wire.FromQueue(d, wire.Defaults{Trusted: []string{wire.Sender}})
		return decoded, err
	}
	later := func(context.Context, []record.Message) error { return errors.New("queue away") }
	processing := process.New(engine, decode, later, process.Options{Log: log})
	publishing := publish.New(engine, publish.Options{Log: log})
	messages := []record.Message{
		{Stream: "orders", ID: secretKey},
		{Stream: "orders", ID: secretKey + "-refused", Headers: map[string]string{"do": "refuse"}},
		{Stream: "orders", ID: secretKey + "-failed", Headers: map[string]string{"do": "fail"}},
		{Stream: "chat", Source: secretKey, Sequence: 3},
		{Stream: "chat", Source: secretKey, Sequence: 90_000},
		{Stream: "chat", Source: secretKey, Sequence: 1},
		{Stream: "nowhere", ID: secretKey},
	}
	var batch, triggers []queue.Delivery
	for i, m := range messages {
		m.Body = []byte(secretBody)
		batch = append(batch, queue.Delivery{Message: wire.ToQueue(m), Queue: "ingress", ID: "m" + string(rune('0'+i)), Receives: 2})
		triggers = append(triggers, queue.Delivery{Message: wire.ToTrigger(m.GroupKey()), Queue: "publish", ID: "t" + string(rune('0'+i)), Receives: 2})
	}
	for _, d := range batch {
		processing.Handle(ctx, []queue.Delivery{d})
	}
	for _, d := range triggers {
		publishing.Handle(ctx, []queue.Delivery{d})
	}
	return text.String()
}

// A line is one line of a log in JSON.
type logLine map[string]any

func linesOf(t *testing.T, text string) []logLine {
	t.Helper()
	var out []logLine
	for line := range strings.Lines(text) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

func TestEachTryOfAMessageIsOneLineThatNamesItsHashAndAPanicHasItsStackOnce(t *testing.T) {
	for _, keys := range []bool{false, true} {
		var text bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
		panics := func(_ context.Context, _ *record.Attempt, m record.Message) error {
			if m.Try < 3 {
				panic("no such shelf")
			}
			return nil
		}
		engine, err := dedup.New(dedup.Config{
			Store: memstore.New(time.Now), Queues: nowhere{}, Log: log, LogKeys: keys, Streams: []record.Stream{{Name: "orders", Handler: panics}},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := process.New(engine, func(d *queue.Delivery) (record.Message, error) {
			m, _, err := wire.FromQueue(d, wire.Defaults{})
			return m, err
		}, nil, process.Options{Log: log, LogKeys: keys})
		m := record.Message{Stream: "orders", ID: secretKey, Group: "shelf-1", Body: []byte(secretBody)}
		for try := 1; try <= 3; try++ {
			h.Handle(t.Context(), []queue.Delivery{{Message: wire.ToQueue(m), Queue: "ingress", ID: "1", Receives: try}})
		}
		lines := linesOf(t, text.String())
		if len(lines) != 3 {
			t.Fatalf("%d lines, want one for each try:\n%s", len(lines), text.String())
		}
		group := m.GroupKey()
		for i, l := range lines {
			if l["stream"] != "orders" || l["group"] != group.String() || l["hash"] != m.Hash() || l["try"] != float64(i+1) {
				t.Errorf("line %d is about something else: %v", i+1, l)
			}
			if (l["key"] == secretKey) != keys || (l["group_key"] == "shelf-1") != keys {
				t.Errorf("line %d with keys %v: %v", i+1, keys, l)
			}
			stack, _ := l["stack"].(string)
			if failed := i < 2; failed != strings.Contains(stack, "log_test.go") || failed != (l["error"] == "handle message: panic: no such shelf") || failed == (l["outcome"] == "processed") {
				t.Errorf("line %d: %v", i+1, l)
			}
		}
	}
}
