package admission_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// recorded are queues that record the calls; the kind of call named away fails. The dead-letter
// queue does not accept the message with the id full.
type recorded struct {
	record.Queues
	away, full string
	took       []string
}

var errAway = errors.New("away")

func (d *recorded) DeadLetter(_ context.Context, refused []record.Refused) error {
	if d.away == "dead" {
		return errAway
	}
	errs := make([]error, len(refused))
	for i, r := range refused {
		if d.full != "" && r.Message.ID == d.full {
			errs[i] = errAway
			continue
		}
		d.took = append(d.took, "dead "+r.Message.Number())
	}
	return record.Each(errs)
}

func (d *recorded) Trigger(_ context.Context, groups []record.GroupKey, delay time.Duration) error {
	if d.away == "trigger" {
		return errAway
	}
	if len(groups) == 0 {
		d.took = append(d.took, "trigger nothing")
	}
	for _, g := range groups {
		d.took = append(d.took, "trigger "+g.Group+" in "+delay.String())
	}
	return nil
}

func (d *recorded) Return(_ context.Context, messages []record.Message) error {
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

func TestHandoverDeadLettersBeforeItReturns(t *testing.T) {
	refused, failing := []record.Refused{{Message: numbered("p", 1)}, {Message: numbered("p", 2)}}, []record.Message{numbered("q", 1)}
	for away, want := range map[string][]string{
		"":       {"dead p/0/1", "dead p/0/2", "return q/0/1"},
		"dead":   nil,
		"return": {"dead p/0/1", "dead p/0/2"},
	} {
		d := &recorded{away: away}
		if err := admission.Handover(t.Context(), d, refused, failing); (err != nil) != (away != "") {
			t.Errorf("%q away: %v", away, err)
		}
		if !slices.Equal(d.took, want) {
			t.Errorf("%q away: %q", away, d.took)
		}
	}
}

func TestHandoverIsRepeatedForEachPlan(t *testing.T) {
	d := &recorded{}
	// another worker may have acknowledged the first copy, because the message was still held
	for range 2 {
		if err := admission.Handover(t.Context(), d, []record.Refused{{Message: numbered("p", 1)}}, []record.Message{numbered("q", 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(d.took, []string{"dead p/0/1", "return q/0/1", "dead p/0/1", "return q/0/1"}) {
		t.Errorf("took %q", d.took)
	}
}
