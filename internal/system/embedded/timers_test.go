package embedded_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

const timersConfig = `
streams: {orders: {}}
destinations: {ledger: {file: DIR/ledger.jsonl}}
`

// timing is a stream whose handler sets and cancels the timer "unpaid", as the header do says. The
// message of the timer has an effect.
func timing(after time.Duration) system.Stream {
	return system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
		send := func(text string) record.Effect {
			return record.Effect{To: []string{"ledger"}, ContentType: "application/json", Body: []byte(`"` + text + `"`)}
		}
		switch {
		case m.Timer != "":
			a.Send(send(m.Timer + " of " + m.Group))
			return nil
		case m.Headers["Do"] == "set":
			return a.SetTimer("unpaid", after, record.Effect{Body: []byte("x")})
		case m.Headers["Do"] == "cancel":
			return a.CancelTimer("unpaid")
		}
		return a.SendAfter(send("later of "+m.Group), after)
	}}}
}

// awaitLines waits until the ledger has n lines.
func (p *place) awaitLines(t *testing.T, n int) (lines []line) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		if lines = p.lines(); len(lines) < n {
			return fmt.Errorf("%d lines, want %d: %+v", len(lines), n, lines)
		}
		return nil
	})
	return lines
}

func TestTimersAndDelayedEffectsAreThereOnceAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: timersConfig}
		r := p.start(timing(time.Minute))
		begin := time.Now()
		for key, do := range map[string]string{"a": "set", "b": "set", "c": "later"} {
			r.send(t, client.Message{Stream: "orders", Key: key, Group: "group-" + key, Headers: map[string]string{"Do": do}})
		}
		r.send(t, client.Message{Stream: "orders", Key: "b2", Group: "group-b", Headers: map[string]string{"Do": "cancel"}})
		r.idle(t)
		g, err := r.Group(t.Context(), "orders", "group-a")
		if err != nil || len(g.Timers) != 1 || g.Timers[0].Name != "unpaid" {
			t.Errorf("the timers of the group are %+v, %v, want the timer unpaid", g.Timers, err)
		}
		r.stop()
		r = p.start(timing(time.Minute))
		p.awaitLines(t, 2)
		if took := time.Since(begin); took < time.Minute {
			t.Errorf("the effects are there after %s, want after at least a minute", took)
		}
		r.idle(t)
		r.stop()
		// a third start delivers nothing again
		r = p.start(timing(time.Minute))
		r.send(t, client.Message{Stream: "orders", Key: "d", Group: "group-b", Headers: map[string]string{"Do": "set"}})
		p.awaitLines(t, 3)
		r.idle(t)
		r.stop()
		got := map[string]string{}
		for _, l := range p.lines() {
			got[fmt.Sprintf("%s/%s/%d", l.Stream, l.Group, l.Number)], _ = l.Body.(string)
		}
		want := map[string]string{"orders/group-a/2": "unpaid of group-a", "orders/group-c/1": "later of group-c", "orders/group-b/3": "unpaid of group-b"}
		for id, body := range want {
			if got[id] != body {
				t.Errorf("the line %s has %q, want %q", id, got[id], body)
			}
		}
		if len(p.lines()) != len(want) {
			t.Errorf("the ledger has %+v, want %d lines", p.lines(), len(want))
		}
	})
}
