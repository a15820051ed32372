package retry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// A shop is a destination that does not take the bodies in bad, and remembers the others.
type shop struct {
	mu    sync.Mutex
	bad   map[string]error
	tried []string
	got   []string
	call  func() // called by each Send
}

func (s *shop) Send(_ context.Context, deliveries []record.Delivery) []error {
	if s.call != nil {
		s.call()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(deliveries))
	stopped := map[string]error{}
	for i, d := range deliveries {
		body := string(d.Effect.Body)
		if errs[i] = stopped[d.Group]; errs[i] != nil {
			continue
		}
		s.tried = append(s.tried, body)
		if errs[i] = s.bad[body]; errs[i] != nil {
			stopped[d.Group] = errs[i]
			continue
		}
		s.got = append(s.got, body)
	}
	return errs
}

// A world is a sender to a shop, with a clock that only the test moves.
type world struct {
	*shop
	*Sender
	now     time.Time
	tries   []Try
	settled []string
}

func newWorld(o Options) *world {
	w := &world{shop: &shop{bad: map[string]error{}}, now: noon}
	o.Now = func() time.Time { return w.now }
	o.Failed = func(t Try) { w.tries = append(w.tries, t) }
	o.Settled = func(d *record.Delivery) { w.settled = append(w.settled, string(d.Effect.Body)) }
	if o.Random == nil {
		o.Random = func(n int64) int64 { return n - 1 } // the longest pauses
	}
	w.Sender = New(w.shop, o)
	return w
}

func (w *world) send(deliveries ...record.Delivery) []error {
	return w.Sender.Send(context.Background(), deliveries)
}

// effect returns an effect of group g that was committed at noon.
func effect(number uint64, body string) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprintf("orders/g/%d", number), Stream: "orders", Group: "g", Number: number, Committed: noon, Effect: record.Effect{Body: []byte(body)},
	}
}

func later(t *testing.T, err error) time.Duration {
	t.Helper()
	x, ok := errors.AsType[*record.LaterError](err)
	if !ok {
		t.Fatalf("%v is no LaterError", err)
	}
	return x.At.Sub(noon)
}

var errField = &record.AnswerError{Status: 400, Text: "400 Bad Request", Body: "field x missing"}

func TestADeliveryIsTriedAgainWhenItsPauseIsOverAndNotBefore(t *testing.T) {
	w := newWorld(Options{Policy: record.RetryPolicy{First: time.Second, Max: 4 * time.Second}})
	w.bad["a"] = errField
	var next []time.Duration
	for range 40 { // asked five times a second
		if errs := w.send(effect(1, "a"), effect(2, "b")); later(t, errs[0]) > w.now.Sub(noon) && !errors.Is(errs[1], record.ErrBlocked) {
			t.Fatalf("behind it: %v", errs[1])
		}
		if last := later(t, w.send(effect(1, "a"))[0]); len(next) == 0 || next[len(next)-1] != last {
			next = append(next, last)
		}
		w.now = w.now.Add(200 * time.Millisecond)
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second}, next); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "a", "a", "a"}, w.tried); diff != "" {
		t.Error(diff)
	}
	if n := len(w.tries); n != 4 || w.tries[3].Number != 4 || w.tries[3].Status() != 400 {
		t.Errorf("%d tries are reported: %+v", n, w.tries)
	}
	w.now = noon.Add(time.Minute)
	delete(w.bad, "a")
	if errs := w.send(effect(1, "a"), effect(2, "b")); errs[0] != nil || errs[1] != nil {
		t.Errorf("recovered: %v", errs)
	}
	if diff := cmp.Diff([]string{"a"}, w.settled); diff != "" {
		t.Error(diff)
	}
}

func TestAnUndeliverableDeliveryIsRefusedWithItsAnswerAndTheNextOnesAreSentInTheNextCall(t *testing.T) {
	w := newWorld(Options{Policy: record.RetryPolicy{First: time.Second, Max: time.Second, For: time.Minute}})
	w.bad["a"], w.bad["c"] = errField, errors.New("away")
	all := []record.Delivery{effect(1, "a"), effect(2, "b"), effect(3, "c"), effect(4, "d")}
	for {
		errs := w.send(all...)
		if refused, ok := errors.AsType[*record.RefusedError](errs[0]); ok {
			if age := w.now.Sub(noon); age < time.Minute || age > 61*time.Second {
				t.Errorf("refused at the age of %v", age)
			}
			if refused.Reason != record.ReasonUndeliverable || refused.Detail != "400 Bad Request: field x missing" {
				t.Errorf("%+v", refused)
			}
			if len(w.got) > 0 || !errors.Is(errs[1], record.ErrBlocked) || !errors.Is(errs[3], record.ErrBlocked) {
				t.Errorf("behind it, in the same call: %v, sent: %v", errs[1:], w.got)
			}
			if errs = w.send(all[1:]...); errs[0] != nil || !errors.Is(errs[1], w.bad["c"]) || !errors.Is(errs[2], record.ErrBlocked) {
				t.Errorf("in the next call: %v", errs)
			}
			break
		}
		if len(w.got) > 0 {
			t.Fatalf("%v were sent before their predecessor was settled", w.got)
		}
		w.now = noon.Add(later(t, errs[0]))
	}
	if last := w.tries[len(w.tries)-2]; !last.Next.IsZero() || string(last.Delivery.Effect.Body) != "a" {
		t.Errorf("the last try of the first is reported as %+v", last)
	}
}

func TestABacklogThatIsOlderThanThePolicyGetsSeveralTriesFirst(t *testing.T) {
	w := newWorld(Options{Policy: record.RetryPolicy{For: 72 * time.Hour}})
	w.now = noon.Add(100 * time.Hour)
	w.bad["a"] = errField
	for n := 1; ; n++ {
		errs := w.send(effect(1, "a"))
		if isRefused(errs[0]) {
			if n != record.MinTries {
				t.Errorf("refused after %d tries", n)
			}
			return
		}
		w.now = noon.Add(later(t, errs[0]))
	}
}

func TestOneTryIsEnoughAfterTwiceTheTimeOfThePolicy(t *testing.T) {
	w := newWorld(Options{})
	w.now = noon.Add(145 * time.Hour)
	w.bad["a"] = errField
	if errs := w.send(effect(1, "a")); !isRefused(errs[0]) {
		t.Error(errs)
	}
}

func TestADeliveryThatWasNotTriedIsNeverUndeliverable(t *testing.T) {
	w := newWorld(Options{MinTries: 1, Policy: record.RetryPolicy{For: time.Minute}})
	w.now = noon.Add(time.Hour)
	w.bad["a"] = fmt.Errorf("%w: failing", record.ErrUntried)
	for range 20 {
		errs := w.send(effect(1, "a"))
		w.now = noon.Add(later(t, errs[0]))
	}
	if w.tries[19].Number != 0 || !errors.Is(w.tries[19].Err, record.ErrUntried) {
		t.Errorf("counted as a try: %+v", w.tries[19])
	}
}

func TestACallWhoseTimeIsOverSaysNothingAboutTheDestination(t *testing.T) {
	w := newWorld(Options{MinTries: 1, Policy: record.RetryPolicy{For: time.Minute}})
	w.now = noon.Add(time.Hour)
	w.bad["a"] = context.Canceled
	ctx, cancel := context.WithCancel(t.Context())
	w.call = cancel
	if errs := w.Sender.Send(ctx, []record.Delivery{effect(1, "a")}); !errors.Is(errs[0], context.Canceled) || isRefused(errs[0]) || len(w.tries) > 0 {
		t.Errorf("%v, %d tries", errs, len(w.tries))
	}
}

func TestThePauseOfADeliveryThatOtherProcessesTriedFollowsTheReceivesOfItsTrigger(t *testing.T) {
	w := newWorld(Options{})
	w.bad["a"], w.bad["b"] = errField, errField
	ctx := WithReceives(t.Context(), map[record.GroupKey]int{{Stream: "orders", Group: "g"}: 5})
	if got := later(t, w.Sender.Send(ctx, []record.Delivery{effect(1, "a")})[0]); got != 16*time.Second {
		t.Errorf("the pause is %v", got)
	}
	w.now = noon.Add(16 * time.Second)
	delete(w.bad, "a")
	if got := later(t, w.Sender.Send(ctx, []record.Delivery{effect(1, "a"), effect(2, "b")})[1]); got != 17*time.Second {
		t.Errorf("the first failure of the next one pauses until %v", got)
	}
}

func TestTwoCallsAtOnceMakeOneTryOfAFailedDelivery(t *testing.T) {
	w := newWorld(Options{})
	w.bad["a"] = errField
	first := later(t, w.send(effect(1, "a"))[0])
	w.now = noon.Add(first)
	w.call = func() {
		w.call = nil
		if errs := w.send(effect(1, "a")); later(t, errs[0]) <= first {
			t.Errorf("the second call: %v", errs)
		}
	}
	w.send(effect(1, "a"))
	if len(w.tried) != 2 {
		t.Errorf("tried %v", w.tried)
	}
}

func TestTheDetailHasTheFirstKilobyteOfTheAnswerAndTheErrorLess(t *testing.T) {
	long := &record.AnswerError{Status: 400, Text: "400 Bad Request", Body: strings.Repeat("x", record.MaxAnswer)}
	w := newWorld(Options{MinTries: 1, Policy: record.RetryPolicy{For: time.Second}})
	w.now = noon.Add(time.Hour)
	w.bad["a"] = fmt.Errorf("post to shop: %w", long)
	refused, _ := errors.AsType[*record.RefusedError](w.send(effect(1, "a"))[0])
	if refused == nil || refused.Detail != "400 Bad Request: "+long.Body {
		t.Errorf("%+v", refused)
	}
	if n := len(long.Error()); n > 300 {
		t.Errorf("an error of %d bytes", n)
	}
}

func TestHastenEndsThePauses(t *testing.T) {
	w := newWorld(Options{})
	w.bad["a"] = errField
	w.send(effect(1, "a"))
	w.Hasten()
	if w.send(effect(1, "a")); len(w.tried) != 2 {
		t.Errorf("tried %v", w.tried)
	}
}

// TestADeliveryWithoutANumberBlocksNothingAndIsNotBlocked sends it with numbered ones of its group.
func TestADeliveryWithoutANumberBlocksNothingAndIsNotBlocked(t *testing.T) {
	single := effect(0, "single")
	for bad, others := range map[string][]record.Delivery{"single": {effect(1, "a"), effect(2, "b")}, "a": {single}} {
		w := newWorld(Options{})
		w.bad[bad] = errField
		first := single
		if bad == "a" {
			first = effect(1, "a")
		}
		w.send(first)
		// its pause is not over
		if errs := w.send(append([]record.Delivery{first}, others...)...); later(t, errs[0]) <= 0 || errors.Join(errs[1:]...) != nil {
			t.Errorf("%s fails: %v", bad, errs)
		}
	}
}

func TestWithoutOptionsAFailureIsReportedToNobody(t *testing.T) {
	s := New(&shop{bad: map[string]error{"a": errField}}, Options{Policy: record.RetryPolicy{First: time.Second, Max: time.Second, For: time.Hour}})
	failing := effect(1, "a")
	failing.Committed = time.Now()
	if errs := s.Send(t.Context(), []record.Delivery{failing}); !errors.Is(errs[0], errField) {
		t.Errorf("%v", errs)
	}
}
