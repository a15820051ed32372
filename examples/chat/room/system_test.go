package room

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/follow"
	"github.com/effectively-once/once/internal/system/pipeline"
	"github.com/effectively-once/once/internal/testkit/memqueue"
)

// A server is the system of one region: the real engine, HTTP API and destinations, on a store and
// queues in memory. It implements system.Backend.
type server struct {
	region   Region
	seed     uint64
	config   *config.Config
	links    http.RoundTripper // to the other regions
	store    *store
	hub      follow.Hub
	ingress  *memqueue.Queue
	line     *memqueue.Queue // first-in-first-out
	publish  *memqueue.Queue
	triggers *memqueue.Queue // first-in-first-out
	dead     *memqueue.Queue
	handler  http.Handler
	pipeline *pipeline.Pipeline
	queued   []int // on the ingress queue, at each receive
}

// A store counts the entries that the record of the room keeps after each commit.
type store struct {
	*memstore.Store

	mu                   sync.Mutex
	pending, bytes, held []int
}

func (s *store) Commit(ctx context.Context, c record.Commit) error {
	if err := s.Store.Commit(ctx, c); err != nil {
		return err
	}
	n, held := 0, 0
	for i := range c.Next.Pending {
		n += c.Next.Pending[i].Size()
	}
	for _, source := range c.Next.Sources {
		held += source.Held.Len()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.bytes, s.held = append(s.pending, len(c.Next.Pending)), append(s.bytes, n), append(s.held, held)
	return nil
}

func newServer(t *testing.T, seed uint64, r Region, text string, links http.RoundTripper) *server {
	t.Helper()
	c, err := config.Parse(r.Name+".yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	q := func(name string) *memqueue.Queue { return memqueue.New(name, memqueue.Options{Now: r.Now}) }
	s := &server{
		region: r, seed: seed, config: c, links: links, store: &store{Store: memstore.NewShared(r.Now)},
		ingress: q("ingress"), line: q("ingress.fifo"), publish: q("publish"), triggers: q("publish.fifo"), dead: q("dead"),
	}
	sys := system.New(s).(*once.System)
	once.Handle(sys, Stream, r.Handle)
	if s.handler, err = sys.Handler(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start implements system.Backend.
func (s *server) Start(streams []system.Stream) (system.Engine, error) {
	p, err := pipeline.New(pipeline.Config{
		Config: s.config, Declared: streams, Store: s.store, Appended: s.appended, Recalls: true, Random: drawn(s.seed), Now: s.region.Now, Transport: s.links, Open: open, Trusted: []string{wire.Sender},
		Ports: pipeline.Ports{Ingress: s.ingress, IngressFIFO: s.line, Publish: s.publish, PublishFIFO: s.triggers, Dead: s.dead, DeadPublish: s.dead},
	})
	if err != nil {
		return nil, err
	}
	s.pipeline = p
	return p.Engine, nil
}

// appended wakes the readers of a log. They read before the next commit of the same batch, which
// would otherwise have the same time.
func (s *server) appended(key record.GroupKey) {
	s.hub.Appended(key)
	sleep(time.Nanosecond)
}

// drawn returns the jitter of a server. It comes from the seed and the time, not from a sequence of
// numbers: two parts that need one at the same time do so in any order.
func drawn(seed uint64) func(n int64) int64 {
	return func(n int64) int64 {
		return rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))).Int64N(n)
	}
}

func open(_ string, _ config.Destination, shared pipeline.Open) (record.Sender, error) {
	return shared()
}

func (s *server) Handler() http.Handler {
	return api.New(api.Options{
		Engine: s.pipeline.Engine, Queue: s.pipeline.Queues, Logs: follow.NewLogs(s.store, &s.hub), Now: s.region.Now,
		RequestID: func(*http.Request) string { return "simulated" },
	})
}

// Run works until the context ends.
func (s *server) Run(ctx context.Context) error {
	process, publish := s.pipeline.Process(), s.pipeline.Publish()
	var all sync.WaitGroup
	start := func(q *memqueue.Queue, handle queue.Handler, n uint64) {
		pauses := rand.New(rand.NewPCG(s.seed, n))
		all.Go(func() { work(ctx, q, handle, pauses) })
	}
	start(s.ingress, func(ctx context.Context, batch []queue.Delivery) []queue.Disposition {
		s.queued = append(s.queued, s.ingress.Len())
		return process.Handle(ctx, batch)
	}, 1)
	start(s.line, process.Handle, 2)
	start(s.publish, publish.Handle, 3)
	start(s.triggers, publish.Handle, 4)
	all.Wait()
	s.hub.Close()
	return nil
}

// work feeds a function from a queue, as the pollers of an embedded system do. A batch takes a
// while, as long as the disk of a busy server, so that the next one has several messages.
func work(ctx context.Context, q queue.Queue, handle queue.Handler, pauses *rand.Rand) {
	for ctx.Err() == nil {
		batch, err := q.Receive(ctx, 100, time.Minute, 20*time.Second)
		if err != nil || len(batch) == 0 {
			continue
		}
		sleep(20*time.Millisecond + time.Duration(pauses.Int64N(int64(40*time.Millisecond))))
		var settled []string
		for i, d := range handle(ctx, batch) {
			if d.Retry {
				_ = q.ChangeVisibility(ctx, batch[i].Receipt, max(d.Pause, time.Millisecond))
				continue
			}
			settled = append(settled, batch[i].Receipt)
		}
		q.Delete(ctx, settled)
	}
}

func (s *server) Tokens() lease.Store { return s.store }
func (s *server) Close() error        { return nil }
