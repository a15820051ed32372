package embedded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

func TestTheOverviewHasTheGroupsThatWaitAndNoOthersThoseWithTheMostTriesFirst(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: strings.Replace(forwarding, "  orders:", "  numbers: {admission: sequence, destinations: [ledger]}\n  jobs: {}\n  orders:", 1)}
	handler := func(context.Context, *record.Attempt, record.Message) error { return errors.New("no") }
	retry := record.RetryPolicy{First: 5 * time.Millisecond, Max: 20 * time.Millisecond, For: time.Hour}
	r := p.start(system.Stream{Stream: record.Stream{Name: "jobs", Handler: handler, Retry: retry}})
	defer r.stop()
	r.send(t, client.Message{Stream: "orders", Key: "o-1", Body: []byte(`1`)})
	r.send(t, client.Message{Stream: "numbers", Source: "bob", Sequence: 2, Group: "g", Body: []byte(`1`)})
	r.send(t, client.Message{Stream: "jobs", Key: "j-1", Body: []byte(`1`)})
	var o admin.Overview
	until(t, "two groups wait", func() bool {
		var err error
		if o, err = r.Overview(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		return len(o.Groups) == 2 && o.Groups[0].Waiting[0].Tries > 0
	})
	if o.Groups[0].Stream != "jobs" || o.Groups[1].Waiting[0].For != admin.WaitNumber || o.More != 0 || len(o.Queues) == 0 {
		t.Errorf("%+v", o)
	}
	one, err := r.Overview(t.Context(), 1)
	if err != nil || len(one.Groups) != 1 || one.More != 1 {
		t.Errorf("limited to one: %+v, %v", one, err)
	}
	g, err := r.Group(t.Context(), "numbers", "g")
	if diff := cmp.Diff(g, o.Groups[1]); err != nil || diff != "" {
		t.Errorf("the group itself is another one: %v\n%s", err, diff)
	}
}
