package embedded

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// runner returns the runner that processes messages without the queue.
func (s *System) runner() *direct.Runner {
	return direct.New(direct.Config{
		Processor: liveProcessor{s}, Line: liveLine{s}, Streams: s.now().pipeline.Direct(local), Sync: s.syncDirect, Timeout: pollStarting, Limit: direct.Limit,
		Stranded: func(key record.GroupKey) { s.watch.dueIn(key, 0) },
		Retry:    func(stream string) time.Duration { return s.now().pipeline.MessagePause(stream) }, Now: s.options.Now,
	})
}

// local reports whether sending to a destination is a write on this machine. All but webhooks and
// other systems are: those that need AWS are files here.
func local(d config.Destination) bool {
	return d.Kind() != config.KindWebhook && d.Kind() != config.KindOnce
}

// syncDirect makes the results of messages durable that were processed without the queue.
func (s *System) syncDirect() error {
	crash("before-sync")
	defer crash("after-sync")
	return durable{system: s}.sync()
}

// line is the order of the messages on the ingress queues.
type line struct {
	queues *queues
	routes *pipeline.Queues
	// noWait is until when the batches of a stream do not wait for messages on the queues, in Unix
	// nanoseconds.
	noWait map[string]*atomic.Int64
	now    func() time.Time
}

// noWaitFor is how long batches of a stream do not wait for the queues after one of them has waited
// in vain: another sender may keep the queue busy, and every batch would wait for nothing.
const noWaitFor = 10 * time.Second

// line returns the order of the messages by a pipeline.
func (s *System) line(p *pipeline.Pipeline) line {
	l := line{queues: s.queues, routes: p.Queues, noWait: map[string]*atomic.Int64{}, now: s.options.Now}
	for name := range p.Direct(local) {
		l.noWait[name] = &atomic.Int64{}
	}
	return l
}

// Reserve reserves a place in the first-in-first-out queue, also for an unordered message: there it
// only keeps other direct messages of the group out. An unordered message goes through the standard
// queue while that queue is busy: its messages may be of the same group, and each commit of one
// would make another worker's commit fail.
func (l line) Reserve(m *record.Message) (direct.Place, bool) {
	unordered := l.routes.Unordered(m)
	if unordered && !l.queues.ingress.Quiet() {
		return nil, false
	}
	p, ok := l.queues.ingressFIFO.Reserve(wire.FIFOGroup(m))
	if !ok {
		return nil, false
	}
	if unordered {
		return unorderedPlace{place{p}, l.queues.ingress}, true
	}
	return place{p}, true
}

// A place is one in the first-in-first-out queue.
type place struct{ *pebblequeue.Place }

// Enqueue implements [direct.Place].
func (p place) Enqueue(ctx context.Context, m record.Message, pause time.Duration) (string, error) {
	crash("before-enqueue")
	defer crash("after-enqueue")
	r := p.Send(ctx, wire.ToQueue(m), pause)
	return r.ID, r.Err
}

// Hold implements [direct.Holder].
func (p place) Hold(ctx context.Context, m record.Message, pause time.Duration) (string, error) {
	crash("before-enqueue")
	defer crash("after-enqueue")
	r := p.SendTried(ctx, pebblequeue.Tried{Message: wire.ToQueue(m), Receives: 1, Pause: pause, Hold: p.Place.Hold()})
	return r.ID, r.Err
}

// Show implements [direct.Holder].
func (p place) Show(q direct.Queued) { p.Place.Hold().Show(q.Pause, receives(q)) }

// receives returns how often the queue counts a message as received.
func receives(q direct.Queued) uint32 {
	if q.Tried {
		return 1
	}
	return 0
}

// An unorderedPlace keeps other direct messages of the group out. Its message goes on the standard
// queue.
type unorderedPlace struct {
	place
	queue *pebblequeue.Queue
}

// Enqueue implements [direct.Place].
func (p unorderedPlace) Enqueue(ctx context.Context, m record.Message, pause time.Duration) (string, error) {
	return p.send(ctx, m, pebblequeue.Tried{Pause: pause})
}

// Hold implements [direct.Holder].
func (p unorderedPlace) Hold(ctx context.Context, m record.Message, pause time.Duration) (string, error) {
	return p.send(ctx, m, pebblequeue.Tried{Pause: pause, Hold: p.Place.Hold()})
}

func (p unorderedPlace) send(ctx context.Context, m record.Message, out pebblequeue.Tried) (string, error) {
	crash("before-enqueue")
	defer crash("after-enqueue")
	out.Message, out.Receives = wire.ToQueue(m), 1
	out.Group, out.DedupID = "", ""
	r := p.queue.SendTried(ctx, []pebblequeue.Tried{out})[0]
	return r.ID, r.Err
}

// ReserveAll reserves the places of a batch. See Reserve. If messages are in the way, it waits for
// the queue until ctx ends. A sender that waits for each answer would otherwise put its next
// batches behind them, and the queue would not become empty as long as it sends.
func (l line) ReserveAll(ctx context.Context, messages []record.Message) direct.Places {
	noWait := l.noWait[messages[0].Stream]
	waits := ctx.Err() == nil && noWait.Load() < l.now().UnixNano()
	p := places{line: l, unordered: l.routes.Unordered(&messages[0])}
	groups := make([]string, len(messages))
	for i := range messages {
		groups[i] = wire.FIFOGroup(&messages[i])
	}
	for {
		p.Places = nil
		behind := p.unordered && !l.queues.ingress.Quiet() && (!waits || !l.queues.ingress.AwaitQuiet(ctx))
		if !behind {
			p.Places, behind = l.queues.ingressFIFO.ReserveAll(ctx, groups, waits)
		}
		if behind && waits && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			noWait.Store(l.now().Add(noWaitFor).UnixNano())
		}
		switch {
		case p.Places == nil:
			return nil
		case !p.unordered || l.queues.ingress.Quiet():
			return p
		}
		p.Release()
	}
}

// places are those of a batch in the first-in-first-out queue. Unordered messages go on the
// standard queue, see unorderedPlace.
type places struct {
	*pebblequeue.Places
	line      line
	unordered bool
}

// Show implements [direct.Shower].
func (p places) Show(q direct.Queued) {
	p.Hold(q.Place).Show(q.Pause, receives(q))
}

var errBehind = errors.New("an earlier message of the group was not put on the queue")

// Enqueue implements [direct.Places]. The queue takes all valid messages or none. A message that is
// not valid stops its group.
func (p places) Enqueue(ctx context.Context, messages []direct.Queued) (ids []string, errs []error) {
	crash("before-enqueue")
	defer crash("after-enqueue")
	to := p.line.queues.ingressFIFO
	if p.unordered {
		to = p.line.queues.ingress
	}
	ids, errs = make([]string, len(messages)), make([]error, len(messages))
	out, which, sent := make([]pebblequeue.Tried, 0, len(messages)), make([]int, 0, len(messages)), make([]int, 0, len(messages))
	stopped := map[record.GroupKey]bool{}
	for j, q := range messages {
		m := pebblequeue.Tried{Message: wire.ToQueue(*q.Message), Receives: receives(q), Pause: q.Pause}
		if q.Held {
			m.Hold = p.Hold(q.Place)
		}
		if p.unordered {
			m.Group, m.DedupID = "", ""
		}
		if errs[j] = m.Validate(to.Name()); errs[j] == nil && stopped[q.Message.GroupKey()] {
			errs[j] = errBehind
		}
		if errs[j] != nil {
			stopped[q.Message.GroupKey()] = true
			continue
		}
		out, which, sent = append(out, m), append(which, q.Place), append(sent, j)
	}
	var results []queue.SendResult
	if p.unordered {
		results = to.SendTried(ctx, out)
	} else {
		results = p.Send(ctx, which, out)
	}
	for k, j := range sent {
		ids[j], errs[j] = results[k].ID, results[k].Err
	}
	return ids, errs
}
