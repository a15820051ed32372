package outbox_test

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

func TestFeasibleRefusesExactlyTheEffectsThatCanNeverBePublished(t *testing.T) {
	p := outbox.New(outbox.Config{Senders: map[string]record.Sender{"out": picky{}}})
	body := func(n int) []record.Effect { return []record.Effect{{To: []string{"out"}, Body: make([]byte, n)}} }
	header := func(name string, n int) []record.Effect {
		return []record.Effect{{To: []string{"out"}, Headers: map[string]string{name: strings.Repeat("\x01", n)}}}
	}
	for name, c := range map[string]struct {
		effects []record.Effect
		reply   *record.Reply
		refused bool
	}{
		"nothing":                          {},
		"an effect as large as may be":     {effects: body(record.MaxEffect)},
		"an effect that is larger":         {effects: body(record.MaxEffect + 1), refused: true},
		"headers as large as may be":       {effects: header("x", record.MaxHeaders-1)},
		"headers that are larger":          {effects: header("x", record.MaxHeaders), refused: true},
		"a header that is no text":         {effects: header("x\xff", 1), refused: true},
		"a reply as large as may be":       {reply: &record.Reply{Body: make([]byte, record.MaxReply)}},
		"a reply that is larger":           {reply: &record.Reply{Body: make([]byte, record.MaxReply+1)}, refused: true},
		"a destination that nobody knows":  {effects: []record.Effect{{To: []string{"out", "elsewhere"}}}, refused: true},
		"an object where there is no room": {effects: []record.Effect{{Blob: &record.Blob{Key: "k"}}}, refused: true},
	} {
		if err := p.Feasible(c.effects, c.reply); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
