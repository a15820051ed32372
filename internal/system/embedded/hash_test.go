package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

func TestShowFindsAMessageByItsHashWhereverItIs(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  orders: {}
  chat: {admission: sequence}
`}
	handler := func(_ context.Context, _ *record.Attempt, m record.Message) error {
		switch string(m.Body) {
		case "fail":
			return errors.New("away")
		case "refuse":
			return &record.RejectError{Detail: "no"}
		}
		return nil
	}
	retry := record.RetryPolicy{First: time.Millisecond, Max: 5 * time.Millisecond, For: time.Hour}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler, Retry: retry}}, system.Stream{Stream: record.Stream{Name: "chat", Handler: handler}})
	defer r.stop()
	for _, body := range []string{"fine", "fail", "refuse"} {
		r.send(t, client.Message{Stream: "orders", Key: body, Group: "of-" + body, Body: []byte(body)})
	}
	r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: 2, Body: []byte(`2`)})
	for _, want := range []struct {
		message       record.Message
		id, status    string
		group, reason string
	}{
		// a done token has no id
		{record.Message{Stream: "orders", ID: "fine"}, "", "done", "of-fine", ""},
		{record.Message{Stream: "orders", ID: "fail"}, "fail", "accepted", "of-fail", ""},
		{record.Message{Stream: "orders", ID: "refuse"}, "refuse", "rejected", "of-refuse", "rejected"},
		{record.Message{Stream: "chat", ID: "ann/0/2"}, "ann/0/2", "held", "ann", ""},
	} {
		until(t, want.message.ID, func() bool {
			m, err := r.Message(t.Context(), want.message.Stream, want.message.ID)
			return err == nil && m.Status == want.status && (want.status != "accepted" || len(m.Waiting) > 0 && m.Waiting[0].For == admin.WaitRetry)
		})
		for _, stream := range []string{"", want.message.Stream} {
			got, err := r.ByHash(t.Context(), admin.HashOptions{Stream: stream, Hash: want.message.Hash()})
			if err != nil || got.Stream != want.message.Stream || got.ID != want.id || got.Hash != want.message.Hash() || got.Status != want.status || got.Group != want.group || got.Reason != want.reason {
				t.Errorf("%s: %+v, %v", want.message.ID, got, err)
			}
			if quick, err := r.QuickByHash(t.Context(), admin.HashOptions{Stream: stream, Hash: want.message.Hash()}); err != nil || quick.ID != got.ID || quick.Status != got.Status {
				t.Errorf("quickly, %s: %+v, %v; want %+v", want.message.ID, quick, err, got)
			}
		}
	}
	fine := record.Message{Stream: "orders", ID: "fine"}
	for _, o := range []admin.HashOptions{{Stream: "chat", Hash: fine.Hash()}, {Hash: "000000000000"}} {
		if got, err := r.ByHash(t.Context(), o); !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("%+v: %+v, %v", o, got, err)
		}
	}
}

// TestAQuickSearchFindsTokensWhoseKeysBeginAlike looks for each of many tokens by six digits, which
// the search finds by their place among the keys.
func TestAQuickSearchFindsTokensWhoseKeysBeginAlike(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {}, jobs: {}}"}
	r := p.start()
	defer r.stop()
	for _, stream := range []string{"orders", "jobs"} {
		var batch []client.Message
		for i := range 300 {
			batch = append(batch, client.Message{Stream: stream, Key: fmt.Sprint("m-", i), Group: fmt.Sprint("g-", i), Body: []byte("1")})
		}
		r.sendBatch(t, batch)
	}
	r.idle(t)
	for i := range 100 {
		m := record.Message{Stream: "orders", ID: fmt.Sprint("m-", i)}
		hash := m.Hash()[:admin.MinHash]
		if got, err := r.QuickByHash(t.Context(), admin.HashOptions{Stream: "orders", Hash: hash}); err != nil || got.Group != fmt.Sprint("g-", i) || got.Stream != "orders" {
			t.Errorf("%s, the hash of m-%d: %+v, %v", hash, i, got, err)
		}
	}
	for _, hash := range []string{"000000", "ffffff", "0000000000000000000000000000000000000000000000000000000000000000"} {
		if got, err := r.QuickByHash(t.Context(), admin.HashOptions{Hash: hash}); !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("%s: %+v, %v, want not found", hash, got, err)
		}
	}
}

func TestTheHashOfAMessageThatWaitsInAStoppedFolderIsFound(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	handler := func(context.Context, *record.Attempt, record.Message) error { return errors.New("away") }
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	r.sendSQS(t, "s-1", "1")
	r.stop()
	m := record.Message{Stream: "orders", ID: "s-1"}
	s := p.inspected(t)
	got, err := s.ByHash(t.Context(), admin.HashOptions{Hash: m.Hash()})
	if err != nil || got.ID != "s-1" || got.Group != "g" || len(got.Waiting) != 1 || got.Waiting[0].Queue != "ingress.fifo" {
		t.Errorf("%+v, %v", got, err)
	}
}
