package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// A recorder is a queue and an issuer. It records the messages in order, and fails for chosen ones.
type recorder struct {
	mu     sync.Mutex
	steps  []string
	got    []record.Message
	fails  map[string]error // by step
	tokens map[string]record.Token
}

func (r *recorder) Enqueue(_ context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		step := "enqueue " + m.ID
		r.steps = append(r.steps, step)
		r.got = append(r.got, m)
		errs[i] = r.fails[step]
	}
	return errs
}

func (r *recorder) Issue(_ context.Context, m record.Message) (record.Token, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step := "issue " + m.ID
	r.steps = append(r.steps, step)
	return r.tokens[m.ID], true, r.fails[step]
}

func newSender(t *testing.T, admission record.Admission, r *recorder) *Sender {
	t.Helper()
	s, err := New(record.Stream{Name: "payments", Admission: admission}, r, r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func numbered(group string, number uint64) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprintf("orders/%s/%d", group, number), Stream: "orders", Group: group, Number: number, Incarnation: 9, Sequence: number,
		Target: "account", Effect: record.Effect{Body: []byte("b")},
	}
}

func settled(errs []error) []bool {
	out := make([]bool, len(errs))
	for i, err := range errs {
		out[i] = err == nil
	}
	return out
}

func TestADeliveryBecomesANumberedMessage(t *testing.T) {
	r := &recorder{}
	d := numbered("eve", 7)
	d.Sequence = 3
	d.Effect = record.Effect{
		To: []string{"next"}, ID: "a", Source: "outside", Epoch: 1, Sequence: 5,
		ContentType: "text/plain", Headers: map[string]string{"h": "v"}, Body: []byte("b"), DependsOn: map[string]uint64{"chat/a": 2},
	}
	if errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	want := []record.Message{{
		Principal: "~stream", Stream: "payments", ID: "orders/eve/7", Group: "account", Source: "orders/eve", Epoch: 9, Sequence: 3, DependsOn: map[string]uint64{"chat/a": 2},
		ContentType: "text/plain", Headers: map[string]string{"h": "v"}, Body: []byte("b"),
	}}
	if diff := cmp.Diff(want, r.got); diff != "" {
		t.Error(diff)
	}
}

func TestADeliveryWithoutANumberGoesToStreamsThatNeedNone(t *testing.T) {
	d := record.Delivery{Identity: "orders/x", Stream: "orders", Effect: record.Effect{Body: []byte("b")}}
	r := &recorder{}
	if errs := newSender(t, record.ByKey, r).Send(t.Context(), []record.Delivery{d}); errs[0] != nil || r.got[0].Source != "" {
		t.Errorf("%v, %+v", errs, r.got)
	}
	r = &recorder{}
	errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d})
	if !errors.Is(errs[0], errUnnumbered) || isRefused(errs[0]) || len(r.got) != 0 {
		t.Errorf("%v, %+v", errs, r.got)
	}
}

func TestANewIncarnationOfAGroupIsNotTakenForTheOldOne(t *testing.T) {
	old := numbered("eve", 7)
	old.Sequence = 0
	long := numbered(strings.Repeat("g", record.MaxName), 7)
	long.Sequence = 0
	relayed := record.Delivery{Identity: "orders/x", Stream: "orders", Effect: old.Effect}
	for _, admission := range []record.Admission{record.ByKey, record.ByToken} {
		var ids []string
		for _, d := range []record.Delivery{old, long, relayed} {
			anew := d
			anew.Incarnation = 10
			r := &recorder{}
			if errs := newSender(t, admission, r).Send(t.Context(), []record.Delivery{d, d, anew}); errors.Join(errs...) != nil {
				t.Fatal(errs)
			}
			if r.got[1].ID != r.got[0].ID {
				t.Errorf("one delivery is both %q and %q", r.got[0].ID, r.got[1].ID)
			}
			if same := r.got[2].ID == r.got[0].ID; same != (d.Number == 0) {
				t.Errorf("delivery %d of another incarnation is %q, the old one was %q", d.Number, r.got[2].ID, r.got[0].ID)
			}
			ids = append(ids, r.got[0].ID)
		}
		if ids[0] != "orders/eve/7@9" || len(ids[1]) > record.MaxName || ids[2] != "orders/x" {
			t.Errorf("ids %q", ids)
		}
	}
}

func TestATokenIsIssuedBeforeItsMessageIsEnqueued(t *testing.T) {
	r := &recorder{tokens: map[string]record.Token{"orders/a/1@9": {State: record.Done}, "orders/a/2@9": {State: record.Issued}}}
	errs := newSender(t, record.ByToken, r).Send(t.Context(), []record.Delivery{numbered("a", 1), numbered("a", 2)})
	if diff := cmp.Diff([]bool{true, true}, settled(errs)); diff != "" {
		t.Error(errs)
	}
	if len(r.steps) != 3 || r.steps[2] != "enqueue orders/a/2@9" {
		t.Errorf("steps %q", r.steps)
	}
}

func TestAFailureStopsItsGroupOnly(t *testing.T) {
	deliveries := []record.Delivery{numbered("a", 1), numbered("b", 1), numbered("a", 2), numbered("a", 3), numbered("b", 2)}
	want := []bool{true, true, false, false, true}
	for _, failing := range []string{"issue orders/a/2@9", "enqueue orders/a/2@9"} {
		r := &recorder{fails: map[string]error{failing: errors.New("away")}}
		errs := newSender(t, record.ByToken, r).Send(t.Context(), deliveries)
		if diff := cmp.Diff(want, settled(errs)); diff != "" {
			t.Error(failing, diff)
		}
		if strings.HasPrefix(failing, "issue") {
			for _, m := range r.got {
				if m.ID == "orders/a/3@9" {
					t.Error("enqueued behind a failure")
				}
			}
		}
	}
}

func TestARefusedDeliveryStopsNothing(t *testing.T) {
	r := &recorder{}
	big := numbered("a", 1)
	big.Effect.Body = make([]byte, record.SmallBody+1)
	errs := newSender(t, record.ByKey, r).Send(t.Context(), []record.Delivery{big, numbered("a", 2)})
	var refused *record.RefusedError
	if !errors.As(errs[0], &refused) || refused.Reason != record.ReasonInvalid || errs[1] != nil || len(r.got) != 1 {
		t.Errorf("%v, %+v", errs, r.got)
	}
	reuse := &record.RefusedError{Reason: record.ReasonKeyReuse}
	r = &recorder{fails: map[string]error{"issue orders/a/1@9": reuse}}
	errs = newSender(t, record.ByToken, r).Send(t.Context(), []record.Delivery{numbered("a", 1), numbered("a", 2)})
	if !errors.Is(errs[0], reuse) || errs[1] != nil {
		t.Errorf("%v", errs)
	}
}

func TestLongNamesFitAndStayDifferent(t *testing.T) {
	long := strings.Repeat("é", 150)
	names := []string{"short", long, long + "/1", long + "/2", record.Fit(long), record.Fit(record.Fit(long)), strings.Repeat("x", record.MaxName)}
	seen := map[string]string{}
	for _, name := range names {
		got := record.Fit(name)
		if len(got) > record.MaxName || !utf8.ValidString(got) {
			t.Errorf("%q does not fit", got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", name, other, got)
		}
		seen[got] = name
	}
	if record.Fit("short") != "short" || record.Fit(names[6]) != names[6] {
		t.Error("a name that fits was changed")
	}
	d := numbered(strings.Repeat("g", record.MaxName), 1)
	r := &recorder{}
	if errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d}); errs[0] != nil {
		t.Error(errs[0])
	}
}

func TestAnErrorNamesTheStreamUnlessItIsARefusal(t *testing.T) {
	r := &recorder{fails: map[string]error{"enqueue orders/a/1@9": errors.New("away"), "enqueue orders/b/1@9": &record.RefusedError{Reason: record.ReasonKeyReuse}}}
	errs := newSender(t, record.ByKey, r).Send(t.Context(), []record.Delivery{numbered("a", 1), numbered("b", 1)})
	if errs[0].Error() != "send to stream payments: away" {
		t.Errorf("got %q", errs[0])
	}
	if strings.Contains(errs[1].Error(), "send to") {
		t.Errorf("got %q", errs[1])
	}
}

func TestTokenAdmissionNeedsAnIssuer(t *testing.T) {
	for _, admission := range []record.Admission{record.ByKey, record.BySequence} {
		if _, err := New(record.Stream{Name: "payments", Admission: admission}, &recorder{}, nil); err != nil {
			t.Errorf("admission %s: %v", admission, err)
		}
	}
	if _, err := New(record.Stream{Name: "payments", Admission: record.ByToken}, &recorder{}, nil); err == nil {
		t.Error("made a sender without one")
	}
	if _, err := New(record.Stream{Name: "-"}, &recorder{}, nil); err == nil {
		t.Error("made a sender to a stream without a valid name")
	}
}
