package direct_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/process"
)

// A desk is a processor and the queue, and notes what happens.
type desk struct {
	run    func(ctx context.Context) process.Result
	runAll func(ctx context.Context, messages []record.Message) []process.Result
	until  time.Time                 // of the last batch
	waits  func(ctx context.Context) // before a batch has its places
	mu     sync.Mutex
	taken  map[record.GroupKey]bool
	queued []time.Duration // the pauses
	counts int             // failures that were counted
	fails  error           // of Enqueue
	// batches lists the messages that were put into the places of each batch
	batches []string
}

func (d *desk) Direct(ctx context.Context, until time.Time, _ record.Stream, _ record.Message) process.Result {
	d.until = until
	return d.run(ctx)
}

func (d *desk) DirectAll(ctx context.Context, until time.Time, _ record.Stream, messages []record.Message) []process.Result {
	d.until = until
	return d.runAll(ctx, messages)
}

func (d *desk) Queued(string, process.Result) { d.counts++ }

func (d *desk) Reserve(m *record.Message) (direct.Place, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken[m.GroupKey()] {
		return nil, false
	}
	d.taken[m.GroupKey()] = true
	return place{d, m.GroupKey()}, true
}

type place struct {
	*desk
	key record.GroupKey
}

func (p place) Enqueue(_ context.Context, _ record.Message, pause time.Duration) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return "", p.fails
	}
	p.queued = append(p.queued, pause)
	return "id", nil
}

func (p place) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, p.key)
}

// timeout is the time of an attempt.
const timeout = time.Minute

var done = process.Result{Outcome: record.Outcome{Kind: record.Processed}, Published: true}

// runner returns an open runner, and the groups that it reports as stranded.
func (d *desk) runner(sync func() error) (*direct.Runner, *[]record.GroupKey) {
	d.taken = map[record.GroupKey]bool{}
	stranded := &[]record.GroupKey{}
	r := direct.New(direct.Config{
		Processor: d, Line: d, Streams: map[string]bool{"s": true, "queued": false}, Sync: sync, Timeout: timeout, Limit: direct.Limit,
		Stranded: func(key record.GroupKey) { *stranded = append(*stranded, key) }, Retry: func(string) time.Duration { return time.Second },
	})
	r.Open()
	return r, stranded
}

var (
	stream  = record.Stream{Name: "s", Admission: record.ByKey}
	message = record.Message{Stream: "s", ID: "1", Group: "g"}
)

// directly reports whether a message would be processed without the queue.
func directly(t *testing.T, r *direct.Runner, s record.Stream, m *record.Message) bool {
	t.Helper()
	try, ok := r.Begin(t.Context(), s, m)
	if try != nil {
		try.End()
	}
	return ok
}

func TestMessagesGoToTheQueueUnlessTheRunnerIsOpenForTheirStream(t *testing.T) {
	d := &desk{run: func(context.Context) process.Result { return done }}
	r, _ := d.runner(nil)
	for _, name := range []string{"queued", "other"} {
		if directly(t, r, record.Stream{Name: name}, &record.Message{Stream: name, ID: "1"}) {
			t.Errorf("a message of stream %s is processed", name)
		}
	}
	first, ok := r.Begin(t.Context(), stream, &message)
	if !ok {
		t.Fatal("a message of an idle group goes to the queue")
	}
	if directly(t, r, stream, &record.Message{Stream: "s", ID: "2", Group: "g"}) {
		t.Error("two messages of one group are processed at once")
	}
	first.End()
	r.Close()
	r.Close()
	if directly(t, r, stream, &message) {
		t.Error("a message is processed after Close")
	}
	r.Open()
	again, ok := r.Begin(t.Context(), stream, &message)
	if !ok {
		t.Fatal("no message is processed after the runner was opened again")
	}
	if _, _, ok, _ := again.Process(t.Context()); !ok {
		t.Error("the message is not processed")
	}
	again.End()
}

func TestEveryPlaceIsReleasedAndTheNumberOfRunsIsBounded(t *testing.T) {
	d := &desk{run: func(context.Context) process.Result { return done }}
	r, _ := d.runner(nil)
	defer r.Close()
	for range 3 { // End without Process, too
		var ends []func()
		for i := range direct.MaxRunning {
			try, ok := r.Begin(t.Context(), stream, &record.Message{Stream: "s", ID: string(rune('a' + i))})
			if !ok {
				t.Errorf("message %d goes to the queue", i)
				break
			}
			if i%2 == 0 {
				ends = append(ends, try.End)
				continue
			}
			ends = append(ends, func() {
				if state, _, ok, err := try.Process(t.Context()); !ok || err != nil || state.Status != admission.StatusDone {
					t.Errorf("%+v %v %v", state, ok, err)
				}
				try.End()
			})
		}
		if directly(t, r, stream, &message) {
			t.Error("more messages than allowed are processed")
		}
		for _, end := range ends {
			end()
		}
	}
	if len(d.taken) > 0 {
		t.Errorf("places are left: %v", d.taken)
	}
}

func TestTheStateIsTheOutcome(t *testing.T) {
	reply := &record.Reply{Status: 201}
	for name, c := range map[string]struct {
		outcome   record.Outcome
		published bool
		status    admission.Status
		replayed  bool
		refused   bool
	}{
		"processed":   {record.Outcome{Kind: record.Processed, Reply: reply}, true, admission.StatusDone, false, false},
		"unpublished": {record.Outcome{Kind: record.Processed, Reply: reply}, false, admission.StatusCommitted, false, false},
		"duplicate":   {record.Outcome{Kind: record.Duplicate, Reply: reply}, true, admission.StatusDone, true, false},
		"held":        {record.Outcome{Kind: record.HeldBack}, true, admission.StatusHeld, false, false},
		"rejected":    {record.Outcome{Kind: record.Rejected, Reason: record.ReasonHandler}, true, admission.StatusRejected, false, false},
		"key reuse":   {record.Outcome{Kind: record.Rejected, Reason: record.ReasonKeyReuse}, true, "", false, true},
		"deleted":     {record.Outcome{Kind: record.Rejected, Reason: record.ReasonDeleted}, true, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{run: func(context.Context) process.Result {
				return process.Result{Outcome: c.outcome, Published: c.published}
			}}
			r, stranded := d.runner(nil)
			defer r.Close()
			try, _ := r.Begin(t.Context(), stream, &message)
			state, replayed, ok, err := try.Process(t.Context())
			try.End()
			refused, _ := errors.AsType[*record.RefusedError](err)
			if state.Status != c.status || replayed != c.replayed || ok == c.refused || (refused != nil) != c.refused {
				t.Errorf("%+v, replayed %v, ok %v, %v", state, replayed, ok, err)
			}
			if state.Reply != c.outcome.Reply && !c.refused || len(*stranded) > 0 {
				t.Errorf("reply %v, stranded %v", state.Reply, *stranded)
			}
		})
	}
}

func TestAResultThatIsNotDurableIsNoResult(t *testing.T) {
	for name, run := range map[string]func(context.Context) process.Result{
		"sync fails": func(context.Context) process.Result { return done },
		"failure": func(context.Context) process.Result {
			return process.Result{Outcome: record.Outcome{Err: errors.New("no")}, Pause: 7 * time.Second}
		},
		"panic": func(context.Context) process.Result { panic("at the disco") },
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{run: run}
			r, stranded := d.runner(func() error { return errors.New("disk") })
			defer r.Close()
			try, _ := r.Begin(t.Context(), stream, &message)
			if _, _, ok, err := try.Process(t.Context()); ok || err != nil {
				t.Fatalf("%v %v", ok, err)
			}
			if err := try.Enqueue(t.Context()); err != nil {
				t.Fatal(err)
			}
			try.End()
			if len(d.queued) != 1 || d.queued[0] < time.Second || d.counts != 1 || len(*stranded) != 0 {
				t.Errorf("queued with the pauses %v, %d counted, stranded %v", d.queued, d.counts, *stranded)
			}
		})
	}
}

func TestACopyOfAMessageThatIsBeingProcessedWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{run: func(context.Context) process.Result { return done }}
		r, _ := d.runner(nil)
		defer r.Close()
		first, _ := r.Begin(t.Context(), stream, &message)
		begun := false
		go func() {
			second, ok := r.Begin(t.Context(), stream, &message)
			if !ok {
				t.Error("the copy goes to the queue")
				return
			}
			begun = true
			second.End()
		}()
		synctest.Wait()
		if begun {
			t.Error("two copies are processed at once")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok := r.Begin(gone, stream, &message); ok {
			t.Error("a caller who has gone is processed")
		}
		first.End()
		synctest.Wait()
		if !begun {
			t.Error("the copy is not processed after the first one")
		}
	})
}

func TestAGroupThatMayHaveACommitAndNoQueuedMessageIsReported(t *testing.T) {
	d := &desk{run: func(context.Context) process.Result { return process.Result{} }, fails: errors.New("disk")}
	r, stranded := d.runner(nil)
	defer r.Close()
	for _, enqueue := range []bool{true, false} { // the API does not enqueue if it can't issue the token
		try, _ := r.Begin(t.Context(), stream, &message)
		_, _, _, _ = try.Process(t.Context())
		if enqueue {
			if err := try.Enqueue(t.Context()); err == nil {
				t.Fatal("enqueued")
			}
		}
		try.End()
	}
	if len(*stranded) != 2 || (*stranded)[0] != message.GroupKey() {
		t.Errorf("stranded %v", *stranded)
	}
}

// Where the caller waits for as long as an attempt may take, as in a function.
func TestAStreamWhoseHandlerEndsWithItsContextCountsAsSlowWhateverItReturns(t *testing.T) {
	for name, result := range map[string]process.Result{
		"an error of its own": {Outcome: record.Outcome{Err: &record.HandlerError{Err: errors.New("query cancelled")}}, Pause: time.Second},
		"done":                done,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{run: func(ctx context.Context) process.Result {
					<-ctx.Done()
					return result
				}, taken: map[record.GroupKey]bool{}}
				r := direct.New(direct.Config{
					Processor: d, Line: d, Streams: map[string]bool{"s": true}, Timeout: timeout, Retry: func(string) time.Duration { return time.Second },
				})
				r.Open()
				defer r.Close()
				try, _ := r.Begin(t.Context(), stream, &message)
				if _, _, ok, err := try.Process(t.Context()); ok != result.Outcome.Settled() || err != nil {
					t.Errorf("%v %v", ok, err)
				}
				try.End()
				if directly(t, r, stream, &message) {
					t.Error("a message of the slow stream is processed directly")
				}
			})
		})
	}
}

// The result is there, and its context has ended, before Process looks for either.
func TestAStreamWithFastHandlersDoesNotCountAsSlow(t *testing.T) {
	d := &desk{run: func(context.Context) process.Result { return done }, taken: map[record.GroupKey]bool{}}
	r := direct.New(direct.Config{
		Processor: d, Line: d, Streams: map[string]bool{"s": true}, Timeout: timeout, Limit: direct.Limit, Go: func(f func()) { f() }, Retry: func(string) time.Duration { return time.Second },
	})
	r.Open()
	defer r.Close()
	for i := range 100 {
		try, ok := r.Begin(t.Context(), stream, &message)
		if !ok {
			t.Fatalf("message %d goes to the queue", i)
		}
		_, _, _, _ = try.Process(t.Context())
		try.End()
	}
}

func TestAfterTheLimitTheCallerIsReleasedAndTheAttemptRunsOn(t *testing.T) {
	for name, c := range map[string]struct {
		result   process.Result
		fails    error // of the queue
		stranded int
	}{
		"it is done":                       {result: done},
		"it fails":                         {result: process.Result{}},
		"it fails, and so does the queue":  {result: process.Result{}, fails: errors.New("disk"), stranded: 1},
		"it is done, and the queue failed": {result: done, fails: errors.New("disk")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cut atomic.Int64
				begun := time.Now()
				d := &desk{fails: c.fails, run: func(ctx context.Context) process.Result {
					<-ctx.Done()
					cut.Store(int64(time.Since(begun)))
					time.Sleep(time.Hour) // it ignores the end of its context
					return c.result
				}}
				r, stranded := d.runner(nil)
				try, _ := r.Begin(t.Context(), stream, &message)
				if _, _, ok, err := try.Process(t.Context()); ok || err != nil || time.Since(begun) != direct.Limit {
					t.Errorf("%v %v after %v", ok, err, time.Since(begun))
				}
				if err := try.Enqueue(t.Context()); !errors.Is(err, c.fails) {
					t.Error(err)
				}
				try.End()
				if queued := len(d.queued) == 1 && d.queued[0] == time.Second; queued != (c.fails == nil) || len(*stranded) > 0 {
					t.Errorf("queued with the pauses %v, stranded %v", d.queued, *stranded)
				}
				if c.fails != nil && len(d.taken) != 1 {
					t.Error("the place of a message that is not on the queue is given up while its attempt runs")
				}
				other := message
				other.Group = "another"
				if directly(t, r, stream, &other) {
					t.Error("a slow stream is processed directly")
				}
				time.Sleep(2 * time.Minute)
				if !directly(t, r, stream, &other) {
					t.Error("a stream is slow for ever")
				}
				r.Close() // waits for the late attempt
				if time.Duration(cut.Load()) != timeout || time.Since(begun) < time.Hour {
					t.Errorf("cancelled after %v, ended after %v", time.Duration(cut.Load()), time.Since(begun))
				}
				if len(*stranded) != c.stranded || c.fails != nil && len(d.taken) > 0 {
					t.Errorf("stranded %v, places %v", *stranded, d.taken)
				}
			})
		})
	}
}
