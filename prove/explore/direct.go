package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/process"
)

// late is the suffix of a request whose time limit is over: the attempt continues without its
// caller, and this worker puts the message on the queue and answers.
const late = " late"

// behind is the suffix of a request that goes through the queue, because the queue has messages of
// its group, or another request has the first place.
const behind = " behind"

// request returns the name of the request that a worker serves.
func request(item string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(item, late), behind), fenced)
}

// lines returns a batch as JSON lines.
func (w *world) lines(names []string) string {
	var out strings.Builder
	for _, name := range names {
		m := w.scenario.message(name)
		fields := map[string]any{"group": m.Group, "content_type": "text/plain", "headers": m.Headers, "body": string(m.Body)}
		if m.ID != "" {
			fields["key"] = m.ID
		}
		if m.Source != "" {
			fields["source"], fields["sequence"] = m.Source, m.Sequence
		}
		text, err := json.Marshal(fields)
		if err != nil {
			panic(fmt.Sprintf("explore: %v", err)) // texts and numbers
		}
		out.Write(append(text, '\n'))
	}
	return out.String()
}

// results records the answer to a batch. The client repeats the batch if one of its messages is to
// be sent again.
func (e *end) results(names []string, answer *httptest.ResponseRecorder) {
	if answer.Code != http.StatusOK {
		return
	}
	e.told = fmt.Sprint(answer.Code)
	lines := json.NewDecoder(answer.Body)
	for _, name := range names {
		var result struct{ Status int }
		switch err := lines.Decode(&result); {
		case err != nil, result.Status >= http.StatusInternalServerError, result.Status == http.StatusTooManyRequests:
			e.told = ""
		case result.Status == http.StatusAccepted:
			e.accepted = append(e.accepted, name)
		}
	}
}

// held reports whether a request has the first place in the group of a queue that keeps the order.
func (s *state) held() bool {
	return slices.ContainsFunc(s.runs, func(r *run) bool {
		return r.kind == serves && !r.lapsed && r.end == nil && !strings.HasSuffix(r.items[0], behind)
	})
}

// line returns the item of a request that a worker begins to serve: if the queue keeps the order,
// and has messages or a place of another request, the request goes behind them. If the epoch of its
// message is not the newest one, the request has to be refused.
func (w *world) line(s *state, name string) string {
	switch {
	case w.fences(s, w.scenario.Requests[name]):
		return name + fenced
	case !w.scenario.lined():
		return name
	}
	processing := slices.ContainsFunc(s.runs, func(r *run) bool { return r.kind == processes })
	if len(s.queues.messages) > 0 || processing || s.held() {
		return name + behind
	}
	return name
}

// ordered returns an error if messages of a queue that keeps the order are applied in another
// order: those of the start first, and those of each batch in their order.
func (w *world) ordered(applied []string) error {
	lists := [][]string{w.scenario.Arrive}
	for _, r := range w.scenario.Requests {
		lists = append(lists, slices.Concat(w.scenario.Arrive, r.names()))
	}
	for _, list := range lists {
		last := 0
		for _, line := range applied {
			if i := slices.Index(list, nameIn(line)); i >= 0 && i < last {
				return fmt.Errorf("not in the order of the queue: %q", applied)
			} else if i >= 0 {
				last = i
			}
		}
	}
	return nil
}

// runner returns what processes messages without the queue for a worker. The code of an attempt
// runs in the worker's own goroutine, which the host can end.
func (w *world) runner(a *host, out *end, over bool) *direct.Runner {
	var processor direct.Processor = process.New(witness{w.engine(a), out.fates}, noQueue, queuesPort{a}.Defer, process.Options{
		Random: func(int64) int64 { return 0 }, Now: a.clock,
	})
	if over {
		processor = overdue{}
	}
	r := direct.New(direct.Config{
		Processor: processor, Line: lineOf{a}, Streams: map[string]bool{stream: true}, Go: func(f func()) { f() },
		Limit: time.Hour, Timeout: time.Hour, Retry: func(string) time.Duration { return time.Second }, Now: a.clock,
	})
	r.Open()
	return r
}

func noQueue(*queue.Delivery) (record.Message, error) { return record.Message{}, errNoAnswer }

// overdue is a processor that did not end in time.
type overdue struct{}

func (overdue) Direct(context.Context, time.Time, record.Stream, record.Message) process.Result {
	return process.Result{}
}

// DirectAll implements [direct.Processor].
func (overdue) DirectAll(_ context.Context, _ time.Time, _ record.Stream, messages []record.Message) []process.Result {
	return make([]process.Result, len(messages))
}

func (overdue) Queued(string, process.Result) {}

// lineOf reserves every place: copies of a message may be on the queue, as where no queue can tell.
type lineOf struct{ *host }

func (l lineOf) Reserve(*record.Message) (direct.Place, bool) { return placeOf(l), true }

// ReserveAll reserves the places of a batch, as Reserve does.
func (l lineOf) ReserveAll(context.Context, []record.Message) direct.Places { return placesOf(l) }

type placesOf struct{ *host }

func (placesOf) Has(int) bool { return true }

func (p placesOf) Enqueue(_ context.Context, queued []direct.Queued) (ids []string, errs []error) {
	messages := make([]record.Message, len(queued))
	for i, q := range queued {
		messages[i] = *q.Message
	}
	q := queuesPort(p)
	put := func() error { return q.enqueue(opEnqueue, messages) }
	if p.w.scenario.lined() {
		put = func() error { return q.putWhole(messages, false) }
	}
	return make([]string, len(queued)), record.ErrorsOf(put(), len(queued))
}

func (placesOf) Release() {}

// putWhole puts all of some messages on a queue that keeps the order: at its end, or in the first
// place.
func (q queuesPort) putWhole(messages []record.Message, last bool) error {
	names := namesOf(messages)
	c := call{op: opEnqueue, touches: touchQueues, text: opEnqueue + " " + strings.Join(names, ", "), parts: 1}
	c.apply = func(v view) outcome {
		v.queues = q.w.change(v.queues, func(p *queuesPart) {
			switch {
			case !last:
				p.messages = slices.Concat(names, p.messages)
			case q.w.scenario.Stream.Pool:
				q.w.append(p, names[0])
			default:
				p.messages = append(p.messages, names...)
			}
		})
		return outcome{view: v, answer: q.w.done(v.now)}
	}
	return q.ask(c, names, last).err
}

type placeOf struct{ *host }

func (p placeOf) Enqueue(_ context.Context, m record.Message, _ time.Duration) (string, error) {
	if p.w.scenario.lined() {
		return "id", queuesPort(p).putWhole([]record.Message{m}, false)
	}
	return "id", queuesPort(p).enqueue(opEnqueue, []record.Message{m})
}

func (placeOf) Release() {}

// fallsBack reports whether the next call of a run is one with which the HTTP API puts a message on
// the queue.
func (r *run) fallsBack() bool {
	return r.call != nil && (r.call.op == opSwap || r.call.op == opEnqueue)
}

// overrun makes the time limit of a direct attempt pass, while the attempt continues.
func (w *world) overrun(s *state, r *run) step {
	out := w.take(s.with(r, w.lapsed(r)).spend(lapses), serves, []string{r.items[0] + late}, func(*queuesPart) {})
	out.text, out.free = r.name+": its time limit is over", false
	return out
}

// abandoned ends an attempt that continued after its time limit.
func (w *world) abandoned(s *state, r *run) step {
	return step{text: r.name + ": ends", free: true, next: w.delay(s.with(r, nil))}
}

// overruns reports whether the time limit of a run may pass now.
func (w *world) overruns(r *run) bool {
	return w.scenario.Direct && r.kind == serves && !r.lapsed && r.end == nil && request(r.items[0]) == r.items[0] && !r.fallsBack()
}

// recall triggers publishing of the groups that have effects pending, as the start of an embedded
// system does after a crash.
func (w *world) recall(s *state) *state {
	if !w.scenario.Recalls {
		return s
	}
	next := *s
	next.queues = w.change(s.queues, func(p *queuesPart) {
		for _, key := range w.scenario.groups() {
			if !slices.Contains(p.triggers, key.Group) {
				p.trigger(key.Group, w.scenario.Workers.Publish)
			}
		}
	})
	return &next
}

// trulyDone returns an error if a client was told that its message is done, and it is not: its
// change is not applied, its effects are not sent, or nothing remembers it.
func (w *world) trulyDone(s *state, r Request, e *end) error {
	if !e.done || !strings.HasSuffix(r.Do, "/messages") {
		return nil
	}
	a, err := w.arrival(r.Message)
	if err != nil {
		return err
	}
	mark := func(line string) bool {
		b, err := w.arrival(nameIn(line))
		return err == nil && b.Token() == a.Token()
	}
	sends := s.sends.list
	switch i := slices.IndexFunc(s.past.applied, mark); {
	case w.scenario.Stream.Effects > 0 && !slices.ContainsFunc(sends, func(x sent) bool { text, _, _ := strings.Cut(x.Body, ","); return mark(text) }):
		return fmt.Errorf("%s is told to be done, and its effects are not sent", r.Message)
	case !w.scenario.Stream.Stateless && i < 0:
		return fmt.Errorf("%s is told to be done, and is not applied", r.Message)
	case a.ByNumber:
		return nil
	}
	for _, t := range s.store.contents.Tokens {
		if t.Key == a.Token() && t.State == record.Done {
			return nil
		}
	}
	for i := range s.store.contents.Groups { // a kept entry is the token
		if entry, ok := a.Entry(&s.store.contents.Groups[i], s.now); ok && entry.Kept() {
			return nil
		}
	}
	return fmt.Errorf("%s is told to be done, and its token is not", r.Message)
}
