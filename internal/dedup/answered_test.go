package dedup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// remembering are the ways in which a refusal is remembered: by a token that is marked after the
// commit, by one that the commit marks, by the record of the group, and without such a record.
func remembering() map[string]func(t *testing.T) *worker {
	return map[string]func(t *testing.T) *worker{
		"marked":        func(t *testing.T) *worker { return newLab(t).worker(byKey) },
		"in the commit": func(t *testing.T) *worker { l := newLab(t); l.commitsDone = true; return l.worker(byKey) },
		"in the record": func(t *testing.T) *worker {
			return newLab(t).workerOf(dedup.Config{Streams: []record.Stream{byKey}, KeepDone: true})
		},
		"without a group": func(t *testing.T) *worker { return newLab(t).worker(relay) },
		"issued": func(t *testing.T) *worker {
			w := newLab(t).worker(byToken)
			w.issue(refusable())
			return w
		},
	}
}

// refusable is a message that its handler refuses, in the group that its id names.
func refusable() record.Message {
	return record.Message{Stream: "s", ID: "a", Group: "a", Body: []byte("reject")}
}

func TestARefusalIsTheAnswerOfItsKey(t *testing.T) {
	for name, open := range remembering() {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			same(t, "first", w.process(refusable()), []string{"rejected rejected"})
			same(t, "letters", w.lettered(), []string{"a rejected"})
			w.scripts["a"] = succeed
			same(t, "again", w.process(refusable()), []string{"duplicate with no"})
			same(t, "letters of both", w.lettered(), []string{"a rejected"})
			token, fresh, err := w.Issue(t.Context(), refusable())
			if _, detail, refused := token.Reply.Refused(); token.State != record.Done || fresh || err != nil || !refused || detail != "no" {
				t.Errorf("issued again: %+v, %v, %v", token, fresh, err)
			}
			state, err := w.Status(t.Context(), refusable())
			if err != nil || state.Status != admission.StatusRejected || state.Reason != record.ReasonHandler || state.Detail != "no" || state.Reply != nil {
				t.Errorf("status: %+v, %v", state, err)
			}
			m := refusable()
			if err := w.Sweep(t.Context(), m.GroupKey()); err != nil {
				t.Fatal(err)
			}
			w.pass(record.DefaultRetention)
			same(t, "after the retention", w.process(refusable()), map[bool][]string{true: {"rejected unknown"}, false: {"processed"}}[name == "issued"])
		})
	}
}

func TestAnAnswerIsTakenBackOnlyByReopeningIt(t *testing.T) {
	for name, open := range remembering() {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.process(refusable())
			letter := w.dead[0]
			for range 2 {
				if answered, err := w.Answered(t.Context(), letter); !answered || err != nil {
					t.Fatalf("answered %v, %v", answered, err)
				}
			}
			w.scripts["a"] = succeed
			for range 2 { // the first one may have died before it put the letter back
				if err := w.Reopen(t.Context(), &letter.Message); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "reopened", w.process(refusable()), []string{"processed"})
			same(t, "again", w.process(refusable()), []string{"duplicate"})
			if answered, err := w.Answered(t.Context(), letter); answered || err != nil {
				t.Errorf("a message that was processed: answered %v, %v", answered, err)
			}
			if err := w.Reopen(t.Context(), &letter.Message); err != nil {
				t.Fatal(err)
			}
			same(t, "reopened when it is done", w.process(refusable()), []string{"duplicate"})
		})
	}
}

// A worker has loaded the group or the token before the letter is put back, and writes its own
// refusal after that. Its write must fail, or it would take away the message that was put back.
func TestARefusalThatIsUnderWayDoesNotTakeAwayAReopenedMessage(t *testing.T) {
	for name, open := range remembering() {
		for c := range 4 {
			letter, accepts := 1+c%2, c > 1
			t.Run(fmt.Sprintf("%s, letter %d, accepts %v", name, letter, accepts), func(t *testing.T) {
				w := open(t)
				again := refusable()
				w.at = nth(letter, "dead", func() fault { // the letter is written, and at once put back
					if err := w.Reopen(t.Context(), &again); err != nil {
						t.Error(err)
					}
					if accepts {
						w.scripts["a"] = succeed
					}
					return works
				})
				for range letter - 1 {
					w.process(refusable())
					if err := w.Reopen(t.Context(), &again); err != nil {
						t.Fatal(err)
					}
				}
				var got []string
				for _, m := range []record.Message{refusable(), again} { // the first try, and the copy
					for n := 0; n == 0 || got[len(got)-1] == "retry"; n++ {
						got = append(got, w.process(m)...)
					}
				}
				letters := len(w.lettered())
				if processed := slices.Contains(got, "processed"); processed != accepts || !accepts && letters < letter+1 {
					t.Errorf("%q, with %d letters", got, letters)
				}
			})
		}
	}
}

// The worker of a refusal marks its token after the letter was put back, twice: the operator's
// command died the first time.
func TestALateMarkDoesNotTakeAwayAReopenedMessage(t *testing.T) {
	w := newLab(t).worker(byKey)
	m := refusable()
	w.at = between("swap absent done", func() {
		w.scripts["a"] = succeed
		for range 2 {
			if err := w.lab.worker(byKey).Reopen(t.Context(), &m); err != nil {
				t.Error(err)
			}
		}
	})
	same(t, "refused", w.process(refusable()), []string{"rejected rejected"})
	same(t, "put back", w.process(m), []string{"processed"})
}

// The answer is forgotten after the retention. Then a message that is put back still runs, and is
// protected again.
func TestARefusalThatIsForgottenIsPutBackToo(t *testing.T) {
	for name, open := range remembering() {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			m := refusable()
			m.Accepted = w.clock()
			same(t, "first", w.process(m), []string{"rejected rejected"})
			if err := w.Sweep(t.Context(), m.GroupKey()); err != nil {
				t.Fatal(err)
			}
			w.pass(record.DefaultRetention + 24*time.Hour)
			w.scripts["a"] = succeed
			letter := w.dead[0]
			if answered, err := w.Answered(t.Context(), letter); !answered || err != nil {
				t.Fatalf("answered %v, %v", answered, err)
			}
			if err := w.Reopen(t.Context(), &letter.Message); err != nil {
				t.Fatal(err)
			}
			same(t, "put back", w.process(letter.Message), []string{"processed"})
			same(t, "again", w.process(letter.Message), []string{"duplicate"})
		})
	}
}

func TestALetterWithoutAMemoryCountsAsAnsweredByItsReason(t *testing.T) {
	w := newLab(t).worker(byKey, record.Stream{Name: "n", Admission: record.BySequence})
	m, number := refusable(), record.Message{Stream: "n", Source: "p", Sequence: 1}
	entry, other := m, m
	entry.RedeliveryOf, other.Stream = "x", "none"
	for name, c := range map[string]struct {
		letter record.Refused
		want   bool
	}{
		"refused by its handler":     {record.Refused{Message: m, Reason: record.ReasonHandler}, true},
		"a number":                   {record.Refused{Message: number, Reason: record.ReasonHandler}, true},
		"of a stream that is gone":   {record.Refused{Message: other, Reason: record.ReasonHandler}, true},
		"tries are over":             {record.Refused{Message: m, Reason: record.ReasonAttempts}, false},
		"was not valid":              {record.Refused{Message: m, Reason: record.ReasonInvalid}, false}, // by SQS, to a stream that was missing
		"never read":                 {record.Refused{Message: other, Reason: record.ReasonInvalid}, false},
		"a gap":                      {record.Refused{Message: number, Reason: record.ReasonGap}, false},
		"an entry of a pool":         {record.Refused{Message: entry, Reason: record.ReasonHandler}, false},
		"an effect":                  {record.Refused{Delivery: &record.Delivery{}, Reason: record.ReasonGone}, false},
		"of the message of a timer":  {record.Refused{Message: record.Message{Stream: "s", Group: "g", ID: "0/1", Timer: "t"}, Reason: record.ReasonHandler}, false},
		"another content of its key": {record.Refused{Message: m, Reason: record.ReasonKeyReuse}, false},
	} {
		if answered, err := w.Answered(t.Context(), c.letter); answered != c.want || err != nil {
			t.Errorf("%s: answered %v, %v", name, answered, err)
		}
	}
}

// Versions before refusals were remembered wrote the reason into the issued token, and told waiting
// callers that a message whose tries are over is refused.
func TestTheRefusalsOfOlderVersionsAreAnswers(t *testing.T) {
	for _, reason := range []record.Reason{record.ReasonHandler, record.ReasonAttempts} {
		w := newLab(t).worker(byKey)
		m := refusable()
		a := admission.Arrival{Message: m}
		old := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Stream: "s", Group: "a", Owner: "o", Reason: reason, Expires: w.clock().Add(record.IssuedRetention)}
		if reason == record.ReasonHandler {
			old.Detail = "no"
		}
		if _, err := w.store.SwapToken(t.Context(), record.Token{Key: old.Key}, old); err != nil {
			t.Fatal(err)
		}
		w.scripts["a"] = succeed
		letter := record.Refused{Message: m, Reason: reason}
		if answered, err := w.Answered(t.Context(), letter); !answered || err != nil {
			t.Errorf("%s: answered %v, %v", reason, answered, err)
		}
		if reason == record.ReasonHandler {
			same(t, "again", w.process(m), []string{"duplicate with no"})
		}
		if err := w.Reopen(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		same(t, "reopened", w.process(m), []string{"processed"})
	}
}

func TestALetterOfAMessageWhoseTriesAreOverIsNoAnswer(t *testing.T) {
	for _, reason := range []record.Reason{record.ReasonAttempts, record.ReasonUnreadable} {
		w := newLab(t).worker(byKey)
		m := keyed("a: fail")[0]
		w.issue(m)
		letter := record.Refused{Message: m, Reason: reason, Detail: "internal"}
		if err := w.Refuse(t.Context(), []record.Refused{letter}); err != nil {
			t.Fatal(err)
		}
		state, err := w.Status(t.Context(), m)
		if err != nil || state.Status != admission.StatusAccepted || state.Reason != reason || state.Detail == "internal" {
			t.Errorf("%+v, %v", state, err)
		}
		if answered, err := w.Answered(t.Context(), letter); answered || err != nil {
			t.Errorf("answered %v, %v", answered, err)
		}
		w.scripts["a"] = succeed
		same(t, "put back", w.process(m), []string{"processed"})
	}
}

// The caller of a message without a group record is answered while its handler runs, and the
// message is put on the queue, with a token.
func TestALateRefusalHasOneLetter(t *testing.T) {
	w := newLab(t).worker(relay)
	w.at = between("dead", func() { w.issue(refusable()) })
	same(t, "late", w.process(refusable()), []string{"rejected rejected"})
	same(t, "of the queue", w.process(refusable()), []string{"duplicate with no"})
	same(t, "letters", w.lettered(), []string{"a rejected"})
}
