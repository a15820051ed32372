package room

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/effectively-once/once/client"
)

// A reader reads the log of a region, and shows it.
type reader struct {
	world  *world
	region string
	tail   *client.Tail

	mu    sync.Mutex
	view  *View
	heard []Heard
	at    []time.Time
}

func newReader(w *world, region string, c *client.Client) *reader {
	r := &reader{world: w, region: region, tail: c.Tail(Stream, Group, client.TailOptions{}), view: NewView()}
	if w.wallClock {
		r.view.compare = func(a, b *Heard) int { return int(int64(a.Entry.Time) - int64(b.Entry.Time)) }
	}
	return r
}

// run reads n lines.
func (r *reader) run(ctx context.Context, n int) {
	r.mu.Lock()
	r.heard, r.at = make([]Heard, 0, n), make([]time.Time, 0, n)
	r.mu.Unlock()
	for range n {
		e, err := r.tail.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.world.violate("%s: read log: %v", r.region, err)
			}
			return
		}
		h, err := Hear(e)
		if err != nil {
			r.world.violate("%s: %v", r.region, err)
			return
		}
		r.mu.Lock()
		if !r.view.Add(h) {
			r.world.violate("%s: %s is read before %s, which it answers", r.region, h.ID, h.Answers[0])
		}
		r.heard, r.at = append(r.heard, h), append(r.at, time.Now())
		r.mu.Unlock()
	}
}

// heardOf returns how many lines of a person are on the screen.
func (r *reader) heardOf(by string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.heard {
		if r.heard[i].By == by {
			n++
		}
	}
	return n
}

// last returns one of the last lines.
func (r *reader) last(rnd *rand.Rand) (Heard, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.heard) == 0 {
		return Heard{}, false
	}
	return r.heard[max(0, len(r.heard)-1-rnd.IntN(4))], true
}

// A sender sends the lines of a person. *client.Sender is one.
type sender interface {
	Send(ctx context.Context, m client.Message) (number uint64, err error)
	Pending() int
	Close(ctx context.Context) error
}

// A person writes lines in one region.
type person struct {
	world   *world
	name    string
	place   *place
	client  *client.Client
	rnd     *rand.Rand
	lines   int
	replace bool // the device is replaced when half of the lines are sent
}

func newPerson(w *world, i int, at *place, latency time.Duration) *person {
	name := personName(i)
	lines := w.lines / w.scenario.people
	if i < w.lines%w.scenario.people {
		lines++
	}
	return &person{
		world: w, name: name, place: at, rnd: rand.New(rand.NewPCG(w.seed, uint64(i)+1)), lines: lines, replace: i%10 == 0,
		client: w.client(name, at.server.region.Name, "send", latency),
	}
}

// device returns a new sender. The server issues an epoch for it.
func (p *person) device() sender {
	if p.world.renumbers {
		return &careless{person: p}
	}
	o := client.SenderOptions{Stream: Stream, Group: Group, Source: p.name, MaxMessages: p.world.outbox}
	if p.world.unbounded {
		o.MaxMessages = p.world.lines
	}
	s, err := p.client.Sender(o)
	if err != nil {
		p.world.violate("%s: %v", p.name, err)
		return nil
	}
	return s
}

func (p *person) run(ctx context.Context) {
	device := p.device()
	for n := 1; n <= p.lines && ctx.Err() == nil; n++ {
		if p.replace && n == p.lines/2 {
			p.put(device.Close(ctx))
			p.awaitLines(ctx, n-1)
			device = p.device()
		}
		sleep(time.Duration(p.rnd.ExpFloat64() * float64(p.world.plan.every)))
		p.write(ctx, device, fmt.Sprintf("%s #%d", p.name, n))
	}
	p.put(device.Close(ctx))
}

// awaitLines waits until the person's lines are on the screen of the region. Lines that the region
// has accepted and not processed become dead letters when a new device takes over.
func (p *person) awaitLines(ctx context.Context, n int) {
	for ctx.Err() == nil && p.place.reader.heardOf(p.name) < n {
		sleep(100 * time.Millisecond)
	}
}

func (p *person) write(ctx context.Context, device sender, text string) {
	var answers []Heard
	if h, ok := p.place.reader.last(p.rnd); ok && p.rnd.IntN(10) < 6 {
		answers = []Heard{h}
	}
	p.world.wrote(text)
	_, err := device.Send(ctx, Say(p.place.server.region.Name, text, answers...))
	p.put(err)
	p.world.mu.Lock()
	p.world.outboxes = append(p.world.outboxes, device.Pending())
	p.world.mu.Unlock()
}

func (p *person) put(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		p.world.violate("%s: %v", p.name, err)
	}
}
