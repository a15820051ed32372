package process

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

var (
	byKey    = record.Stream{Name: "orders", Admission: record.ByKey}
	byNumber = record.Stream{Name: "orders", Admission: record.BySequence}
	direct   = record.Message{Stream: "orders", ID: "a", Group: "g", Accepted: noon.Add(-40 * time.Second)}
)

func TestARejectedDirectMessageIsADeadLetterUnlessItsTokenRefusesIt(t *testing.T) {
	reuse, deleted := record.Outcome{Kind: record.Rejected, Reason: record.ReasonKeyReuse}, record.Outcome{Kind: record.Rejected, Reason: record.ReasonDeleted}
	for name, c := range map[string]struct {
		stream  record.Stream
		outcome record.Outcome
		calls   []string
	}{
		"by the handler":              {byKey, rejected, []string{"process a", "refuse a:rejected"}},
		"key reuse":                   {byKey, reuse, []string{"process a"}},
		"deleted":                     {byKey, deleted, []string{"process a"}},
		"another content of a number": {byNumber, reuse, []string{"process a", "refuse a:key-reuse"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTrial(map[string][]record.Outcome{"a": {c.outcome}}, nil)
			r := w.Handler.Direct(t.Context(), time.Time{}, c.stream, direct)
			if diff := cmp.Diff(c.outcome, r.Outcome); diff != "" || !r.Published {
				t.Errorf("published %v, outcome (-want +got):\n%s", r.Published, diff)
			}
			w.want(t, c.calls...)
		})
	}
}

func TestARejectedDirectMessageThatCannotBeDeadLetteredIsRetried(t *testing.T) {
	w := newTrial(map[string][]record.Outcome{"a": {rejected}}, nil)
	w.refuseErr = errAway
	r := w.Handler.Direct(t.Context(), time.Time{}, byKey, direct)
	if r.Outcome.Settled() || !errors.Is(r.Outcome.Err, errAway) || r.Pause != time.Second {
		t.Errorf("%+v", r)
	}
}

func TestADirectMessageThatFailedIsRegisteredAsItsFirstTryWithItsPause(t *testing.T) {
	for name, c := range map[string]struct {
		outcome record.Outcome
		text    string
		counted int // failures of the handler, when the message is on the queue
	}{
		"its handler failed":    {failed, "handle message: boom", 1},
		"the store is away":     {away, "store away", 0},
		"it was not processed":  {record.Outcome{}, errUndecided.Error(), 0},
		"it is processed":       {processed, "", 0},
		"ahead of predecessors": {tooFar, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			waiting := system.NewWaiting()
			w := newTrial(map[string][]record.Outcome{"a": {c.outcome}}, waiting)
			r := w.Handler.Direct(t.Context(), time.Time{}, byKey, direct)
			w.Queued("id", r)
			var want []system.Wait
			switch {
			case c.text != "":
				want = []system.Wait{{Group: direct.GroupKey(), ID: "a", Try: 1, Error: c.text, Last: noon, Next: noon.Add(time.Second)}}
				if r.Outcome.Settled() || r.Outcome.Err == nil || r.Pause != time.Second {
					t.Errorf("%+v", r)
				}
			case name == "ahead of predecessors": // a quarter of its age
				if r.Outcome.Settled() || r.Pause != 10*time.Second {
					t.Errorf("%+v", r)
				}
			}
			if diff := cmp.Diff(want, waiting.All()); diff != "" {
				t.Errorf("registered (-want +got):\n%s", diff)
			}
			if n := w.tries.failed("id") - 1; n != c.counted {
				t.Errorf("%d failures counted, want %d", n, c.counted)
			}
		})
	}
}

// A tryer records the try of each direct message.
type tryer struct {
	*stub
	tries *[]int
}

func (e tryer) Direct(_ context.Context, _ time.Time, m record.Message) (record.Outcome, bool) {
	*e.tries = append(*e.tries, m.Try)
	return processed, true
}

func TestADirectMessageIsInItsFirstTry(t *testing.T) {
	var tries []int
	New(tryer{&stub{}, &tries}, decode, nil, Options{}).Direct(t.Context(), time.Time{}, byKey, direct)
	if diff := cmp.Diff([]int{1}, tries); diff != "" {
		t.Error(diff)
	}
}
