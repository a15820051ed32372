package direct_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/process"
)

// ReserveAll implements [direct.Line].
func (d *desk) ReserveAll(ctx context.Context, messages []record.Message) direct.Places {
	if d.waits != nil {
		d.waits(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &places{desk: d, has: make([]bool, len(messages)), own: map[record.GroupKey]bool{}}
	for i := range messages {
		key := messages[i].GroupKey()
		if p.has[i] = !d.taken[key] || p.own[key]; p.has[i] {
			d.taken[key], p.own[key] = true, true
		}
	}
	if len(p.own) == 0 {
		return nil
	}
	return p
}

// places note the messages that are put into them, until they are released.
type places struct {
	*desk
	has []bool
	own map[record.GroupKey]bool
	put []string
}

func (p *places) Has(i int) bool { return p.has[i] }

func (p *places) Enqueue(_ context.Context, messages []direct.Queued) (ids []string, errs []error) {
	ids, errs = make([]string, len(messages)), make([]error, len(messages))
	for j, m := range messages {
		if errs[j] = p.fails; errs[j] == nil {
			p.put = append(p.put, fmt.Sprintf("%d %s %v %v", m.Place, m.Message.ID, m.Tried, m.Pause))
		}
	}
	return ids, errs
}

func (p *places) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.own {
		delete(p.taken, key)
	}
	p.batches = append(p.batches, strings.Join(p.put, ", "))
}

// of returns messages group by group, as in a1 a2 b1.
func of(names string) (messages []record.Message) {
	for name := range strings.FieldsSeq(names) {
		messages = append(messages, record.Message{Stream: "s", ID: name, Group: name[:1]})
	}
	return messages
}

// all returns the indexes of the messages that have places.
func all(tries api.Tries, n int) (open []int) {
	for i := range n {
		if tries.Has(i) {
			open = append(open, i)
		}
	}
	return open
}

// as returns a processor with a result for each message, which is done if it has no other.
func as(results map[string]process.Result) func(context.Context, []record.Message) []process.Result {
	return func(_ context.Context, messages []record.Message) []process.Result {
		out := make([]process.Result, len(messages))
		for i, m := range messages {
			var ok bool
			if out[i], ok = results[m.ID]; !ok {
				out[i] = done
			}
		}
		return out
	}
}

func TestABatchIsProcessedButForItsBusyGroups(t *testing.T) {
	d := &desk{run: func(context.Context) process.Result { return done }, runAll: as(nil)}
	r, _ := d.runner(nil)
	if r.BeginAll(t.Context(), record.Stream{Name: "queued"}, of("a1")) != nil {
		t.Error("a batch of a stream that is not direct is processed")
	}
	busy, _ := r.Begin(t.Context(), stream, &record.Message{Stream: "s", ID: "0", Group: "b"})
	batch := of("a1 b1 a2 c1 b2")
	tries := r.BeginAll(t.Context(), stream, batch)
	if got := all(tries, len(batch)); !slices.Equal(got, []int{0, 2, 3}) {
		t.Fatalf("processed: %v", got)
	}
	none := r.BeginAll(t.Context(), stream, of("a3 b3 c3"))
	if got := all(none, 3); len(got) > 0 {
		t.Errorf("of a batch without an idle group are processed: %v", got)
	}
	none.End()
	if got := tries.Process(t.Context(), []int{0, 2, 3}); len(got) != 3 || slices.ContainsFunc(got, func(r api.Tried) bool { return r != (api.Tried{}) }) {
		t.Errorf("%+v", got)
	}
	tries.End()
	busy.End()
	if len(d.taken) > 0 {
		t.Errorf("places are left: %v", d.taken)
	}
	r.Close()
	closed := r.BeginAll(t.Context(), stream, batch)
	if got := all(closed, len(batch)); len(got) > 0 {
		t.Errorf("processed after Close: %v", got)
	}
	closed.End()
}

func TestEveryBatchLeavesAndTheirNumberIsBounded(t *testing.T) {
	d := &desk{runAll: as(nil)}
	r, _ := d.runner(nil)
	defer r.Close()
	for range 2 { // End without Process, too
		var list []api.Tries
		for i := range direct.MaxRunning {
			tries := r.BeginAll(t.Context(), stream, []record.Message{{Stream: "s", ID: fmt.Sprint(i)}})
			if !tries.Has(0) {
				t.Errorf("batch %d goes to the queue", i)
				break
			}
			list = append(list, tries)
		}
		more := r.BeginAll(t.Context(), stream, of("a1"))
		if more.Has(0) {
			t.Error("more batches than allowed are processed")
		}
		more.End()
		for i, tries := range list {
			if i%2 == 0 {
				tries.Process(t.Context(), []int{0})
			}
			tries.End()
		}
	}
}

func TestEachMessageOfABatchHasItsOwnResult(t *testing.T) {
	failed := record.Outcome{Err: &record.HandlerError{Err: errors.New("no")}}
	d := &desk{runAll: as(map[string]process.Result{
		"a1": {Outcome: record.Outcome{Kind: record.Duplicate}},
		"b1": {Outcome: failed, Pause: 7 * time.Second},
		"b2": {Outcome: record.Outcome{Err: record.ErrBlocked}, Untried: true},
		"c1": {Outcome: record.Outcome{Kind: record.Rejected, Reason: record.ReasonKeyReuse}},
		"d1": {Outcome: record.Outcome{Kind: record.Rejected, Reason: record.ReasonHandler}},
	})}
	r, stranded := d.runner(nil)
	defer r.Close()
	tries := r.BeginAll(t.Context(), stream, of("x0 a1 b1 b2 c1 d1"))
	var got []string
	for _, x := range tries.Process(t.Context(), []int{1, 2, 3, 4, 5}) { // the first one is settled by its token
		got = append(got, fmt.Sprint(x.Left, x.Replayed, x.Err != nil))
	}
	if want := []string{"false true false", "true false false", "true false false", "false false true", "false false false"}; !slices.Equal(got, want) {
		t.Errorf("left, replayed, refused: %q", got)
	}
	if errs := tries.Enqueue(t.Context(), []int{1, 2}); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	tries.End()
	if want := "2 b1 true 7s, 3 b2 false 0s"; len(d.batches) != 1 || d.batches[0] != want || d.counts != 2 || len(*stranded) > 0 {
		t.Errorf("on the queue when the places were released: %q; %d counted, stranded %v", d.batches, d.counts, *stranded)
	}
}

func TestABatchThatIsNotDurableIsTriedAgain(t *testing.T) {
	for name, run := range map[string]func(context.Context, []record.Message) []process.Result{
		"sync fails": as(nil),
		"panic":      func(context.Context, []record.Message) []process.Result { panic("at the disco") },
		"too short":  func(context.Context, []record.Message) []process.Result { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{runAll: run, fails: errors.New("full")}
			r, stranded := d.runner(func() error { return errors.New("disk") })
			defer r.Close()
			tries := r.BeginAll(t.Context(), stream, of("a1 b1"))
			for i, x := range tries.Process(t.Context(), []int{0, 1}) {
				if !x.Left {
					t.Errorf("message %d is settled", i)
				}
			}
			if errs := tries.Enqueue(t.Context(), []int{0}); errs[0] == nil {
				t.Error("enqueued")
			}
			tries.End()
			if len(*stranded) != 2 {
				t.Errorf("groups that may have commits, and nothing on the queue: %v", *stranded)
			}
		})
	}
}

// Each of two batches has a message of the other one.
func TestACopyOfABatchWaitsForItWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{run: func(context.Context) process.Result { return done }, runAll: as(nil)}
		r, _ := d.runner(nil)
		defer r.Close()
		first := r.BeginAll(t.Context(), stream, of("a1 b1"))
		begun := make(chan string, 2)
		go func() {
			second := r.BeginAll(t.Context(), stream, of("c1 b1"))
			begun <- "batch"
			second.End()
		}()
		go func() {
			try, _ := r.Begin(t.Context(), stream, &of("a1")[0])
			begun <- "message"
			try.End()
		}()
		synctest.Wait()
		if len(begun) > 0 {
			t.Errorf("two copies are processed at once: %s", <-begun)
		}
		third := r.BeginAll(t.Context(), stream, of("c1"))
		if third == nil {
			t.Fatal("a batch that waits has places")
		}
		third.End()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if r.BeginAll(gone, stream, of("a1")) != nil {
			t.Error("a caller who has gone is processed")
		}
		first.End()
		synctest.Wait()
		if len(begun) != 2 {
			t.Error("the copies are not processed after the first ones")
		}
	})
}

// Otherwise both callers could be told that the message is new.
func TestACopyOfAMessageThatABatchPutsOnTheQueueWaitsForThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{run: func(context.Context) process.Result { return done }, runAll: as(nil)}
		r, _ := d.runner(nil)
		defer r.Close()
		busy, _ := r.Begin(t.Context(), stream, &of("a0")[0])
		first := r.BeginAll(t.Context(), stream, of("a1"))
		busy.End()
		var begun bool
		go func() {
			try, _ := r.Begin(t.Context(), stream, &of("a1")[0])
			begun = true
			try.End()
		}()
		synctest.Wait()
		if begun {
			t.Error("a copy is processed while the first one is put on the queue")
		}
		first.End()
		synctest.Wait()
		if !begun {
			t.Error("the copy is not processed after the first one")
		}
	})
}

// Otherwise both callers could be told that the message is new: the first one when it has issued the
// token, and the second one when it has processed the message.
func TestACopyOfAMessageThatGoesToTheQueueWaitsUntilItIsThere(t *testing.T) {
	for name, begin := range map[string]func(context.Context, *direct.Runner) (end func()){
		"one message": func(ctx context.Context, r *direct.Runner) func() {
			try, ok := r.Begin(ctx, stream, &of("a1")[0])
			if ok {
				t.Error("the message is processed while the runner is closed")
			}
			return try.End
		},
		"a batch": func(ctx context.Context, r *direct.Runner) func() { return r.BeginAll(ctx, stream, of("a1 b1")).End },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{run: func(context.Context) process.Result { return done }, runAll: as(nil)}
				r, _ := d.runner(nil)
				r.Close()
				end := begin(t.Context(), r)
				r.Open()
				defer r.Close()
				begun := 0
				go func() {
					try, _ := r.Begin(t.Context(), stream, &of("a1")[0])
					begun++
					try.End()
					r.BeginAll(t.Context(), stream, of("a1")).End()
					begun++
				}()
				synctest.Wait()
				if begun > 0 {
					t.Error("a copy is processed while the first one is put on the queue")
				}
				end()
				synctest.Wait()
				if begun != 2 {
					t.Errorf("%d copies are processed after the first one is on the queue", begun)
				}
			})
		})
	}
}

func TestABatchOfManyQuickHandlersDoesNotMakeItsStreamSlow(t *testing.T) {
	handler := direct.Watched(func(ctx context.Context, _ *record.Attempt, m record.Message) error {
		pause := 50 * time.Millisecond
		if m.ID == "slow" {
			pause = time.Hour
		}
		select {
		case <-time.After(pause): // virtual time: the handler runs in a bubble
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	for name, c := range map[string]struct {
		first string // a message before the quick ones
		stuck bool   // the batch does not end with its context
		slow  bool
	}{
		"quick":       {"quick", false, false},
		"one is slow": {"slow", false, true},
		"without end": {"quick", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck := make(chan struct{})
				d := &desk{run: func(context.Context) process.Result { return done }}
				d.runAll = func(ctx context.Context, messages []record.Message) []process.Result {
					out := make([]process.Result, len(messages))
					for i, m := range messages {
						if !time.Now().Before(d.until) {
							out[i] = process.Result{Outcome: record.Outcome{Err: context.DeadlineExceeded}, Untried: true}
						} else if err := handler.Run(ctx, &record.Attempt{}, m); err != nil {
							out[i] = process.Result{Outcome: record.Outcome{Err: &record.HandlerError{Err: err}}}
						} else {
							out[i] = done
						}
					}
					if c.stuck {
						<-stuck
					}
					return out
				}
				r, _ := d.runner(nil)
				messages := append([]record.Message{{Stream: "s", ID: c.first}}, slices.Repeat(of("a1"), 100)...)
				begun := time.Now()
				tries := r.BeginAll(t.Context(), stream, messages)
				results := tries.Process(t.Context(), all(tries, len(messages)))
				if took := time.Since(begun); took < direct.Limit || took > direct.Limit+time.Second {
					t.Errorf("ended after %v", took)
				}
				if n := len(slices.DeleteFunc(results, func(x api.Tried) bool { return !x.Left })); n == 0 || n == len(messages) && !c.slow {
					t.Errorf("%d of %d messages are left", n, len(messages))
				}
				tries.End()
				try, ok := r.Begin(t.Context(), stream, &message)
				if ok == c.slow {
					t.Errorf("slow: %v", !ok)
				}
				if ok {
					try.End()
				}
				if c.stuck {
					close(stuck)
				}
				r.Close()
			})
		})
	}
}

func TestABatchThatWaitsForPlacesIsNotCountedAndDoesNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting, ended atomic.Int64
		d := &desk{runAll: as(nil), waits: func(ctx context.Context) {
			if ctx.Err() == nil {
				waiting.Add(1)
				<-ctx.Done()
			}
		}}
		r, _ := d.runner(nil)
		defer r.Close()
		begun := time.Now()
		large := record.Message{Stream: "s", Body: make([]byte, 1<<20)}
		for i := range direct.MaxRunning {
			go func() {
				m := large
				m.ID = fmt.Sprint(i)
				r.BeginAll(t.Context(), stream, []record.Message{m}).End()
				ended.Add(1)
			}()
		}
		synctest.Wait()
		if n := waiting.Load(); n < 8 || n > 16 || ended.Load() != direct.MaxRunning-n {
			t.Errorf("%d batches of 1 MB wait, and %d of %d have gone on", n, ended.Load(), direct.MaxRunning)
		}
		if try, ok := r.Begin(t.Context(), stream, &record.Message{Stream: "s", ID: "one", Group: "other"}); !ok {
			t.Error("a message goes to the queue because of batches that wait")
		} else {
			try.End()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if ended.Load() != direct.MaxRunning || time.Since(begun) > 2*time.Second {
			t.Errorf("%d batches have gone on after %v", ended.Load(), time.Since(begun))
		}
	})
}

func TestABatchThatBecomesTooLateWhileItWaitsForPlacesIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *direct.Runner
		d := &desk{runAll: as(nil), waits: func(context.Context) { r.Close() }}
		r, _ = d.runner(nil)
		tries := r.BeginAll(t.Context(), stream, of("a1"))
		if tries.Has(0) || len(d.taken) > 0 {
			t.Errorf("a message is processed by a runner that is closed, or has kept its place: %v", d.taken)
		}
		tries.End()
	})
}

// The handler does not end with its context, so the request goes on without it.
func TestABatchWhoseHandlerRunsOnSharesNoMessageWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		d := &desk{runAll: func(_ context.Context, messages []record.Message) []process.Result {
			<-goOn
			for i := range messages {
				messages[i].Try = 1 // as [process.Handler.DirectAll] does
			}
			return make([]process.Result, len(messages))
		}}
		r, _ := d.runner(nil)
		batch := of("a1 a2")
		tries := r.BeginAll(t.Context(), stream, batch)
		tries.Process(t.Context(), []int{0, 1})
		close(goOn)
		synctest.Wait()
		tries.Enqueue(t.Context(), []int{0, 1})
		tries.End()
		r.Close()
		if batch[0].Try != 0 || batch[1].Try != 0 {
			t.Errorf("%+v", batch)
		}
	})
}
