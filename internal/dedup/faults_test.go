package dedup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/record"
)

// A scenario is work that must have the same result with any fault at any one call.
type scenario struct {
	name    string
	stream  record.Stream
	batches [][]record.Message
	issued  bool // tokens are issued first
	call    bool // by Call, one message at a time
	sweeps  bool // gaps are closed when everything else is done
	// The expected results: the state, the deliveries to the destinations "out" and "side", dead
	// letters and objects.
	state     string
	out, side []string
	dead      []string
	blobs     string
}

func scenarios() []scenario {
	key, token, sequence := record.Stream{Name: "s"}, record.Stream{Name: "s", Admission: record.ByToken}, record.Stream{Name: "s", Admission: record.BySequence}
	relay := record.Stream{Name: "s", Stateless: true, Unordered: true}
	skip := sequence
	skip.Gap, skip.Events = record.Gap{Policy: record.GapSkip, After: time.Minute}, []string{"side"}
	failing := sequence
	failing.Gap = record.Gap{Policy: record.GapFail, After: time.Minute}
	const big = ": kb=100 send"
	return []scenario{
		{name: "a key, no effects", stream: key, batches: [][]record.Message{keyed("a")}, state: "a,"},
		{name: "a key with an effect and a reply", stream: key, batches: [][]record.Message{keyed("a: send reply")}, state: "a,", out: []string{"s/g/1"}},
		{
			name: "a batch of one group", stream: key, batches: [][]record.Message{keyed("a: send", "b", "a: send", "c: send=out+side")},
			state: "a,b,c,", out: []string{"s/g/1", "s/g/3"}, side: []string{"s/g/3"},
		},
		{
			name: "two batches of one group", stream: key, batches: [][]record.Message{keyed("a", "b: send"), keyed("c: send", "b: send")},
			state: "a,b,c,", out: []string{"s/g/2", "s/g/3"},
		},
		{
			name: "a refusal within a batch", stream: key, batches: [][]record.Message{keyed("a: send", "b: reject", "c: send")},
			state: "a,c,", out: []string{"s/g/1", "s/g/3"}, dead: []string{"b rejected"},
		},
		{
			name: "blobs", stream: key, batches: [][]record.Message{keyed("a: blob=k send", "b: blob=l")}, state: "a,b,",
			out: []string{"s/g/1"}, blobs: "k=a l=b",
		},
		{name: "a token", stream: token, issued: true, batches: [][]record.Message{keyed("a: send", "b")}, state: "a,b,", out: []string{"s/g/1"}},
		{name: "straight through", stream: key, call: true, batches: [][]record.Message{keyed("a: send reply"), keyed("b: reply")}, state: "a,b,", out: []string{"s/g/1"}},
		{name: "a relay", stream: relay, batches: [][]record.Message{keyed("a: send=out+side", "b", "a: send=out+side")}, out: []string{"s/a"}, side: []string{"s/a"}},
		{
			name: "a sequence in order", stream: sequence, batches: [][]record.Message{numbered("1: send", "2", "3: send reply")},
			state: "p/0/1,p/0/2,p/0/3,", out: []string{"s/g/1", "s/g/2"},
		},
		{
			name: "a sequence backwards", stream: sequence, batches: [][]record.Message{numbered("3: send"), numbered("2: reply"), numbered("1: send"), numbered("3: send")},
			state: "p/0/1,p/0/2,p/0/3,", out: []string{"s/g/1", "s/g/3"},
		},
		{
			name: "a handler that fails once", stream: key, batches: [][]record.Message{keyed("a: send", "b: flaky send", "c: send")},
			state: "a,b,c,", out: []string{"s/g/1", "s/g/2", "s/g/3"},
		},
		{
			name: "a handler that fails once for a held message", stream: sequence, batches: [][]record.Message{numbered("2: flaky send", "3: send"), numbered("1: send")},
			state: "p/0/1,p/0/2,p/0/3,", out: []string{"s/g/1", "s/g/2", "s/g/3"},
		},
		{
			name: "a refusal of a held message", stream: sequence, batches: [][]record.Message{numbered("2: reject"), numbered("1: send")},
			state: "p/0/1,", out: []string{"s/g/1"}, dead: []string{"p/0/2 rejected"},
		},
		{
			name: "two sources with a dependency", stream: sequence, batches: [][]record.Message{depending(numbered("q/0/1: send")[0], "p", 2), numbered("2: send"), numbered("1")},
			state: "p/0/1,p/0/2,q/0/1,", out: []string{"s/g/1", "s/g/2"},
		},
		{
			name: "a newer epoch", stream: sequence, batches: [][]record.Message{numbered("p/1/1: send", "p/1/3"), numbered("p/2/2: send", "p/2/1"), numbered("p/1/2")},
			state: "p/1/1,p/2/1,p/2/2,", out: []string{"s/g/1", "s/g/2"}, dead: []string{"p/1/2 stale-epoch", "p/1/3 stale-epoch"},
		},
		{
			name: "a gap to be skipped", stream: skip, sweeps: true, batches: [][]record.Message{numbered("1", "3: send", "6: send")},
			state: "p/0/1,p/0/3,p/0/6,", out: []string{"s/g/2", "s/g/4"}, side: []string{"s/g/1", "s/g/3"},
		},
		{
			name: "a gap that fails", stream: failing, sweeps: true, batches: [][]record.Message{numbered("1: send", "3", "6")},
			state: "p/0/1,", out: []string{"s/g/1"}, dead: []string{"p/0/3 gap", "p/0/6 gap"},
		},
		{
			name: "more effects than a record takes", stream: key, batches: [][]record.Message{keyed("a"+big, "b"+big, "c"+big, "d"+big)},
			state: "a,b,c,d,", out: []string{"s/g/1", "s/g/2", "s/g/3", "s/g/4"},
		},
	}
}

func depending(m record.Message, source string, n uint64) []record.Message {
	m.DependsOn = map[string]uint64{source: n}
	return []record.Message{m}
}

// A run is the execution of a scenario, with one or two faults.
type run struct {
	*lab
	scenario
	calls atomic.Int64
	// moments are the faults at calls with these numbers, counted over all workers.
	moments map[int64]moment
	nested  atomic.Bool
	queue   [][]*entry
	current []*entry
}

type moment int

const (
	failBefore moment = iota
	failAfter
	dieBefore
	dieAfter
	another // another worker does all the work
	copied  // another worker acknowledges the batch that this one has
	moments
)

func (m moment) String() string {
	return [...]string{"the call fails", "its answer is lost", "the process dies before", "the process dies after", "another worker is faster", "a copy is acknowledged"}[m]
}

// process runs a worker; dead reports whether it died.
func (r *run) process() (w *worker, dead *atomic.Bool) {
	w, dead = r.worker(r.stream), &atomic.Bool{}
	w.at = func(call string) fault {
		if dead.Load() {
			return failsBefore
		}
		if r.nested.Load() || strings.HasPrefix(call, "run") {
			return works
		}
		m, hit := r.moments[r.calls.Add(1)]
		if !hit {
			return works
		}
		switch m {
		case failBefore:
			return failsBefore
		case failAfter:
			return failsAfter
		case dieBefore:
			dead.Store(true)
			return failsBefore
		case dieAfter:
			dead.Store(true)
			return failsAfter
		case another, copied:
			r.nested.Store(true)
			defer r.nested.Store(false)
			batch := r.current
			if m == another {
				batch = slices.Concat(r.queue...)
			}
			r.deliver(batch)
			r.serve()
		case moments:
		}
		return works
	}
	return w, dead
}

// deliver delivers messages to a worker once. If it acknowledges a message, no worker can receive
// it again.
func (r *run) deliver(batch []*entry) {
	w, dead := r.process()
	if !r.nested.Load() {
		r.current = batch
	}
	messages := make([]record.Message, len(batch))
	for i, d := range batch {
		messages[i] = d.m
	}
	var outcomes []record.Outcome
	if r.call {
		for _, m := range messages {
			outcomes = append(outcomes, w.Call(context.Background(), m))
		}
	} else {
		outcomes = w.Process(context.Background(), messages)
	}
	for i, o := range outcomes {
		refused := o.Kind == record.Rejected && o.Reply == nil && w.Refuse(context.Background(), []record.Refused{{Message: messages[i], Reason: o.Reason}}) != nil
		if o.Settled() && !refused && !dead.Load() && (!r.call || !r.nested.Load()) {
			batch[i].gone = true
		}
	}
}

// next returns the batch to be delivered next: a batch is redelivered before another one is
// delivered.
func (r *run) next() []*entry {
	for len(r.returned) > 0 {
		r.queue = append(r.queue, []*entry{{m: r.returned[0]}})
		r.returned = r.returned[1:]
	}
	for len(r.queue) > 0 {
		r.queue[0] = slices.DeleteFunc(r.queue[0], func(e *entry) bool { return e.gone })
		if len(r.queue[0]) > 0 {
			return slices.Clone(r.queue[0])
		}
		r.queue = r.queue[1:]
	}
	return nil
}

// serve publishes the triggered groups once, and puts back those that failed. While another worker
// is running, a delayed trigger is not due.
func (r *run) serve() {
	r.mu.Lock()
	triggers := r.triggers
	r.triggers = nil
	r.mu.Unlock()
	for _, x := range triggers {
		if r.nested.Load() && x.Delay > 0 {
			r.triggers = append(r.triggers, x)
			continue
		}
		w, dead := r.process()
		if err := w.Publish(context.Background(), []record.GroupKey{x.Key})[0]; err != nil || dead.Load() {
			r.mu.Lock()
			r.triggers = append(r.triggers, x)
			r.mu.Unlock()
		}
	}
}

// finish delivers, publishes and sweeps until nothing is left to do.
func (r *run) finish(t *testing.T) {
	t.Helper()
	for _, batch := range r.batches {
		entries := make([]*entry, len(batch))
		for i, m := range batch {
			entries[i] = &entry{m: m}
		}
		r.queue = append(r.queue, entries)
	}
	for turn := 0; ; turn++ {
		if turn > 50 {
			t.Fatal("it does not end")
		}
		batch := r.next()
		if len(batch)+len(r.triggers) == 0 {
			break
		}
		if len(batch) > 0 {
			r.deliver(batch)
		}
		r.serve()
	}
	if !r.sweeps {
		return
	}
	for turn, g := 0, r.group(); g.HasHeld(); turn, g = turn+1, r.group() {
		if turn > 50 {
			t.Fatal("gaps stay open")
		}
		r.pass(2 * time.Minute)
		for w, dead := r.process(); w.CloseGaps(context.Background(), record.GroupKey{Stream: "s", Group: "g"}) != nil || dead.Load(); {
			w, dead = r.process()
		}
		for len(r.triggers) > 0 {
			r.serve()
		}
	}
}

// wrong returns the differences between actual and expected results.
func (r *run) wrong() string {
	g := r.group()
	var text strings.Builder
	differ := func(what string, got, want any) {
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			fmt.Fprintf(&text, "%s (-want +got):\n%s", what, diff)
		}
	}
	differ("state", string(g.State), r.state)
	differ("out", r.arrived("out"), r.out)
	differ("side", r.arrived("side"), r.side)
	letters := slices.Compact(slices.Sorted(slices.Values(r.lettered())))
	// a copy of a message that was processed in an older epoch
	differ("dead letters", slices.DeleteFunc(letters, func(letter string) bool {
		id, stale := strings.CutSuffix(letter, " stale-epoch")
		return stale && strings.Contains(r.state, id+",")
	}), r.scenario.dead)
	if g.HasEffects() || g.HasHeld() {
		fmt.Fprintf(&text, "left: %s\n", summary(g))
	}
	for _, m := range slices.Concat(r.batches...) {
		refused := slices.ContainsFunc(r.scenario.dead, func(letter string) bool { return strings.HasPrefix(letter, m.Identity()+" ") })
		if m.Source == "" && !refused {
			differ("token of "+m.ID, r.token(m).State, record.Done)
		}
	}
	_, err := r.worker(r.stream).SweepBlobs(context.Background(), r.store, r.clock())
	differ("sweep of blobs", err, nil)
	var blobs []string
	for key, body := range r.lab.blobs {
		blobs = append(blobs, key+"="+string(body))
	}
	differ("blobs", strings.Join(slices.Sorted(slices.Values(blobs)), " "), r.scenario.blobs)
	differ("staged blobs", len(r.staged), 0)
	return text.String()
}

// play runs a scenario with faults to its end.
func (s scenario) play(t *testing.T, bad map[int64]moment) (calls int64) {
	t.Helper()
	r := &run{lab: newLab(t), scenario: s, moments: bad}
	for _, m := range slices.Concat(s.batches...) {
		if s.issued {
			if _, _, err := r.worker(s.stream).Issue(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.finish(t)
	if wrong := r.wrong(); wrong != "" {
		t.Errorf("at call %v: %s", bad, wrong)
	}
	return r.calls.Load()
}

func TestWithAFaultAtAnyCallEachMessageIsAppliedOnceAndEachEffectArrives(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			calls := s.play(t, nil)
			for n := int64(1); n <= calls; n++ {
				for m := range moments {
					s.play(t, map[int64]moment{n: m})
				}
			}
		})
	}
}

// A worker is overtaken by another one, and dies. If the other one acknowledged too early, no
// delivery is left that would finish the first one's work.
func TestAnAcknowledgementNeverTakesAwayTheWorkOfAnotherWorker(t *testing.T) {
	firsts, seconds := []moment{failAfter, another, copied}, []moment{dieBefore, dieAfter, copied}
	if *long {
		firsts = []moment{failBefore, failAfter, dieBefore, dieAfter, another, copied}
		seconds = firsts
	}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calls := s.play(t, nil)
			for n := int64(1); n <= calls; n++ {
				for later := n + 1; later <= calls+2; later++ {
					if testing.Short() && (n+later)%3 != 0 {
						continue
					}
					for _, first := range firsts {
						for _, second := range seconds {
							s.play(t, map[int64]moment{n: first, later: second})
						}
					}
				}
			}
		})
	}
}
