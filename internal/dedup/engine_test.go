package dedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

func TestNewRequiresAStoreQueuesAndOneHandlerPerStream(t *testing.T) {
	w := &worker{}
	store := memstore.New(time.Now)
	stream := func(name string) record.Stream { return record.Stream{Name: name, Handler: succeed} }
	for _, c := range []struct {
		name string
		cfg  dedup.Config
		want string
	}{
		{"nothing", dedup.Config{}, "a store and queues are required"},
		{"no queues", dedup.Config{Store: store}, "a store and queues are required"},
		{"a bad name", dedup.Config{Store: store, Queues: w, Streams: []record.Stream{stream("-")}}, `stream "-": stream must be`},
		{"no handler", dedup.Config{Store: store, Queues: w, Streams: []record.Stream{{Name: "s"}}}, "needs one handler"},
		{"a name twice", dedup.Config{Store: store, Queues: w, Streams: []record.Stream{stream("s"), stream("s")}}, "a name of its own"},
	} {
		if _, err := dedup.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func TestAStreamHasDefaults(t *testing.T) {
	e, err := dedup.New(dedup.Config{Store: memstore.New(time.Now), Queues: &worker{}, Streams: []record.Stream{{Name: "s", Handler: succeed}}})
	if err != nil {
		t.Fatal(err)
	}
	s, known := e.Stream("s")
	s.Handler = nil
	want := record.Stream{
		Name: "s", Admission: record.ByKey, GroupRetention: 30 * 24 * time.Hour, Gap: record.Gap{Policy: record.GapWait},
		Retry: record.MessageRetry(), Bounds: record.Bounds{Count: 1000, Bytes: 8 << 20, Distance: 10000},
		Limits: record.Limits{Sources: 1000, Targets: 1000, Names: 32 << 10, Ranges: 1000}, MaxBody: record.SmallBody,
	}
	if diff := cmp.Diff(want, s); diff != "" || !known {
		t.Error(diff)
	}
	if _, known := e.Stream("other"); known {
		t.Error("a stream that is not there")
	}
}

// contended is a store whose conditions always fail.
type contended struct{ record.Store }

func (contended) Commit(context.Context, record.Commit) error { return record.ErrConflict }

func TestAContendedGroupIsRetriedWithBackoffUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := dedup.Config{Store: contended{memstore.New(time.Now)}, Queues: &worker{}, Streams: []record.Stream{{Name: "s", Handler: succeed}}}
		e, err := dedup.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		o := e.Process(t.Context(), keyed("a"))[0]
		if !errors.Is(o.Err, record.ErrConflict) {
			t.Errorf("got %+v", o)
		}
		if took := time.Since(begin); took == 0 || took > 5*time.Second {
			t.Errorf("gave up after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if o = e.Process(ctx, keyed("a"))[0]; !errors.Is(o.Err, context.DeadlineExceeded) {
			t.Errorf("got %+v", o)
		}
	})
}

func TestAnEngineWithoutBlobsPublishesNone(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: blob=k")...)
	w := l.worker(byKey)
	e, err := dedup.New(dedup.Config{Streams: []record.Stream{{Name: "s", Handler: w.handle(false)}}, Store: portStore{w}, Queues: w, Now: l.clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Publish(t.Context(), []record.GroupKey{groupG})[0]; err == nil {
		t.Error("published")
	}
	same(t, "left", len(l.group().Pending), 1)
	if o := e.Process(t.Context(), keyed("b: blob=k"))[0]; !errors.As(o.Err, new(*record.HandlerError)) {
		t.Errorf("got %+v", o)
	}
	if n, err := e.SweepBlobs(t.Context(), l.store, l.clock()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestEachOutcomeIsReported(t *testing.T) {
	w := newLab(t).worker(byKey, record.Stream{Name: "n", Admission: record.BySequence})
	w.process(append(keyed("a", "a", "b: reject", "c: fail", ""), record.Message{Stream: "n", Source: "p", Sequence: 2})...)
	counts := map[record.EventName]int{}
	for _, e := range w.events {
		counts[e.Name] += e.Count
	}
	same(t, "events", counts, map[record.EventName]int{
		record.EventProcessed: 1, record.EventDuplicate: 1, record.EventRejected: 2, record.EventRetried: 1, record.EventHeld: 1,
	})
}

func TestWordsOfOutcomesAndStates(t *testing.T) {
	var words []string
	for k := record.Retry; k <= record.Rejected; k++ {
		words = append(words, k.String())
	}
	for s := record.Absent; s <= record.Done+1; s++ {
		words = append(words, s.String())
	}
	same(t, "words", words, []string{"retry", "processed", "duplicate", "held", "rejected", "absent", "issued", "leased", "done", "TokenState(4)"})
	err := &record.RejectError{Detail: "no", Err: errHandler}
	if !errors.Is(err, errHandler) || err.Error() != "no: the handler fails" || (&record.RejectError{Detail: "no"}).Error() != "no" {
		t.Errorf("got %v", err)
	}
}

func TestEmptyBatchesDoNothing(t *testing.T) {
	w := newLab(t).worker(byKey)
	if got := w.Process(t.Context(), nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	same(t, "calls", len(w.calls()), 0)
}
