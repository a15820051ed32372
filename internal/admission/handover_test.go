package admission_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// desks take messages, until one is away.
type desks struct {
	record.Queues
	away string
	took []string
}

var errAway = errors.New("away")

func (d *desks) DeadLetter(_ context.Context, refused []record.Refused) error {
	if d.away == "dead" {
		return errAway
	}
	for _, r := range refused {
		d.took = append(d.took, "dead "+r.Message.Number())
	}
	return nil
}

func (d *desks) Return(_ context.Context, messages []record.Message) error {
	if d.away == "return" {
		return errAway
	}
	for _, m := range messages {
		d.took = append(d.took, "return "+m.Number())
	}
	return nil
}

func numbered(source string, n uint64) record.Message {
	return record.Message{Stream: "s", Group: "g", Source: source, Sequence: n}
}

func TestAMessageIsADeadLetterOnceWhateverItsFateIsTheNextTime(t *testing.T) {
	refused := []record.Refused{{Message: numbered("p", 1)}, {Message: numbered("p", 2)}}
	failing := []record.Message{numbered("q", 1)}
	for away, want := range map[string][]string{
		"":       {"dead p/0/1", "dead p/0/2", "return q/0/1", "dead q/0/1", "dead r/0/1"},
		"dead":   {"dead p/0/1", "dead p/0/2", "dead q/0/1", "dead r/0/1"}, // nothing had been handed over
		"return": {"dead p/0/1", "dead p/0/2", "dead q/0/1", "dead r/0/1"},
	} {
		d, h := &desks{away: away}, &admission.Handover{}
		if err := h.Do(t.Context(), d, refused, failing); (err != nil) != (away != "") {
			t.Errorf("%q away: %v", away, err)
		}
		d.away = ""
		again := append(slices.Clone(refused), record.Refused{Message: numbered("q", 1)}, record.Refused{Message: numbered("r", 1)})
		if err := h.Do(t.Context(), d, again, []record.Message{numbered("p", 1)}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(d.took, want) {
			t.Errorf("%q away: %q", away, d.took)
		}
	}
}

func TestAMessageThatFailsGoesBackForEachPlan(t *testing.T) {
	d, h := &desks{}, &admission.Handover{}
	for range 2 { // whoever received the first copy may have acknowledged it for being held still
		if err := h.Do(t.Context(), d, nil, []record.Message{numbered("p", 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(d.took, []string{"return p/0/1", "return p/0/1"}) {
		t.Errorf("took %q", d.took)
	}
}
