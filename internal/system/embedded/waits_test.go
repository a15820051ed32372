package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// until polls the system until done is true: other goroutines work.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		if !done() {
			return errors.New(what)
		}
		return nil
	})
}

// inspected opens the data folder of a place for reading.
func (p *place) inspected(t *testing.T) *embedded.System {
	t.Helper()
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: p.data(), Inspect: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(nil); err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestShowSaysForWhichTryAMessageWaitsAndForWhichOneTheMessagesBehindIt(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	handler := func(context.Context, *record.Attempt, record.Message) error {
		return errors.New("database is restarting")
	}
	retry := record.RetryPolicy{First: 5 * time.Millisecond, Max: 20 * time.Millisecond, For: time.Hour}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler, Retry: retry}})
	r.send(t, client.Message{Stream: "orders", Key: "o-1", Group: "g", Body: []byte(`1`)})
	r.send(t, client.Message{Stream: "orders", Key: "o-2", Group: "g", Body: []byte(`1`)})
	var first admin.MessageInfo
	until(t, "three tries", func() bool {
		var err error
		if first, err = r.Message(t.Context(), "orders", "o-1"); err != nil {
			t.Fatal(err)
		}
		return len(first.Waiting) > 0 && first.Waiting[0].For == admin.WaitRetry && first.Waiting[0].Tries >= 3
	})
	w := first.Waiting[0]
	if first.Status != "accepted" || w.ID != "o-1" || w.Error != "handle message: database is restarting" || w.Last == nil || w.Next == nil || w.Next.Before(*w.Last) {
		t.Errorf("the first waits: %+v", first)
	}
	group, err := r.Group(t.Context(), "orders", "g")
	if err != nil || len(group.Waiting) != 1 || group.Waiting[0].ID != "o-1" || group.Waiting[0].Tries < 3 {
		t.Errorf("the group waits: %+v, %v", group.Waiting, err)
	}
	second, err := r.Message(t.Context(), "orders", "o-2")
	if err != nil || len(second.Waiting) != 1 || second.Waiting[0].ID != "o-1" {
		t.Errorf("the second waits: %+v, %v", second, err)
	}
	r.stop()
	stopped, err := p.inspected(t).Message(t.Context(), "orders", "o-1")
	if err != nil || len(stopped.Waiting) != 1 || stopped.Waiting[0].For != admin.WaitQueue || stopped.Waiting[0].Queue != "ingress.fifo" || stopped.Waiting[0].Tries < 3 {
		t.Errorf("of the stopped folder: %+v, %v", stopped.Waiting, err)
	}
}

func TestShowSaysWhichDestinationDoesNotTakeAnEffectAlsoToTheMessagesBehindIt(t *testing.T) {
	t.Parallel()
	posted := make(chan bool, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "field x missing", http.StatusBadRequest)
		posted <- true
	}))
	defer receiver.Close()
	var log lines
	p := &place{t: t, dir: t.TempDir(), log: slog.New(slog.NewJSONHandler(&log, nil)), config: `
streams:
  orders: {destinations: [shop]}
destinations:
  shop: {webhook: ` + receiver.URL + `, secret: file:DIR/secret}
`}
	if err := os.WriteFile(filepath.Join(p.dir, "secret"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.start()
	r.send(t, client.Message{Stream: "orders", Key: "o-1", Group: "g", Body: []byte(`1`)})
	r.send(t, client.Message{Stream: "orders", Key: "o-2", Group: "g", Body: []byte(`1`)})
	r.sendSQS(t, "o-3", "1") // it has no token
	<-posted
	check := func(who string, s *embedded.System) {
		until(t, who, func() bool {
			m, err := s.Message(t.Context(), "orders", "o-2")
			return err == nil && m.Status == "committed"
		})
		for id, number := range map[string]uint64{"o-1": 1, "o-2": 1} {
			m, err := s.Message(t.Context(), "orders", id)
			if err != nil || len(m.Waiting) != 1 || m.Waiting[0].For != admin.WaitDestination || m.Waiting[0].ID != "o-1" || m.Waiting[0].Destination != "shop" || m.Waiting[0].Number != number {
				t.Errorf("%s: %s waits: %+v, %v", who, id, m, err)
			}
		}
		g, err := s.Group(t.Context(), "orders", "g")
		if err != nil || len(g.Waiting) != 1 || g.Waiting[0].Destination != "shop" {
			t.Errorf("%s: the group waits: %+v, %v", who, g.Waiting, err)
		}
	}
	check("running", r.System)
	until(t, "a failed try", func() bool {
		m, err := r.Message(t.Context(), "orders", "o-2")
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Waiting) == 0 {
			return false
		}
		w := m.Waiting[0]
		return w.Tries > 0 && w.Status == http.StatusBadRequest && w.Next != nil && strings.Contains(w.Error, "field x missing")
	})
	r.stop()
	check("stopped", p.inspected(t))
	first := record.Message{Stream: "orders", ID: "o-1"}
	for i, l := range log.all(t) {
		if l["hash"] != first.Hash() || l["try"] != float64(i+1) || l["status"] != float64(400) || l["destination"] != "shop" || l["number"] != float64(1) || l["effect"] != nil {
			t.Errorf("line %d of the log: %v", i+1, l)
		}
	}
}

// lines is a log in JSON.
type lines struct{ concurrent.Buffer }

// all returns the lines about effects that failed.
func (l *lines) all(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(l.String()) {
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		if x["msg"] == record.LogEffectRetried {
			out = append(out, x)
		}
	}
	return out
}

func TestShowSaysWhichNumberIsMissingAndSinceWhen(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  chat: {admission: sequence, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`}
	before := time.Now().Add(-time.Second)
	r := p.start()
	for _, n := range []uint64{1, 3, 4} {
		r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: n, Group: "ann", Body: []byte(`1`)})
	}
	check := func(who string, s *embedded.System) {
		var m admin.MessageInfo
		var g admin.GroupInfo
		// Until the effect of message 1 is sent, the group waits for its destination, too.
		until(t, who, func() bool {
			m, _ = s.Message(t.Context(), "chat", "ann/0/4")
			g, _ = s.Group(t.Context(), "chat", "ann")
			return m.Status == "held" && len(m.Waiting) == 1 && len(g.Waiting) == 1
		})
		for _, waiting := range [][]admin.Wait{m.Waiting, g.Waiting} {
			if len(waiting) != 1 || waiting[0].For != admin.WaitNumber || waiting[0].Source != "ann" || waiting[0].Sequence != 2 || waiting[0].Since == nil || waiting[0].Since.Before(before) {
				t.Errorf("%s: waits: %+v", who, waiting)
			}
		}
	}
	check("running", r.System)
	r.stop()
	check("stopped", p.inspected(t))
}

func TestShowFindsAMessageThatCameBySQSBeforeItIsProcessed(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	handler := func(context.Context, *record.Attempt, record.Message) error { return errors.New("away") }
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	defer r.stop()
	r.sendSQS(t, "s-1", "1")
	var m admin.MessageInfo
	until(t, "a try", func() bool {
		var err error
		m, err = r.Message(t.Context(), "orders", "s-1")
		return err == nil && len(m.Waiting) > 0 && m.Waiting[0].For == admin.WaitRetry
	})
	if m.Status != "accepted" || m.Group != "g" || m.Waiting[0].Tries < 1 {
		t.Errorf("it waits: %+v", m)
	}
}
