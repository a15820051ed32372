package room

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// The five regions.
var names = []string{"africa", "america", "asia", "europe", "oceania"}

// A scenario is the size of a simulation, and the mistakes that are planted in it.
type scenario struct {
	seed   uint64
	people int
	lines  int // of all people together
	outbox int // how many lines a person's device keeps
	plan   plan
	mistakes
}

// A plan is when the faults happen, after the start.
type plan struct {
	cutRegion, cutPerson [2]time.Duration
	every                time.Duration // the mean pause of a person between two lines
}

// usual is a room of 100 people who write for a minute. One region is cut off for a third of it,
// and one person for 30 s.
func usual(seed uint64, lines int) scenario {
	const people = 100
	return scenario{
		seed: seed, people: people, lines: lines, outbox: max(2, lines/people/4),
		plan: plan{
			cutRegion: [2]time.Duration{10 * time.Second, 30 * time.Second}, cutPerson: [2]time.Duration{20 * time.Second, 50 * time.Second},
			every: time.Minute * people / time.Duration(lines),
		},
	}
}

// A world is one simulation.
type world struct {
	t *testing.T
	scenario
	net     *network
	start   time.Time
	regions []*place
	people  []*person

	mu         sync.Mutex
	sent       map[string]time.Time // when a line was written, by text
	violations []string
	outboxes   []int // lines in an outbox, when one was added
}

// A place is a region and its screen.
type place struct {
	world  *world
	server *server
	reader *reader
}

func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// sleep waits in the time of a simulation.
func sleep(d time.Duration) {
	time.Sleep(d) // virtual time: a simulation runs in a bubble
}

// simulate runs a scenario in the present bubble.
func simulate(t *testing.T, sc scenario) *world {
	t.Helper()
	w := &world{t: t, scenario: sc, net: &network{seed: sc.seed, hosts: map[string]http.Handler{}}, start: time.Now(), sent: map[string]time.Time{}}
	if sc.repeats {
		w.net.answered = repeat()
	}
	rnd := rand.New(rand.NewPCG(sc.seed, 0))
	w.schedule(rnd)
	w.open(rnd)
	ctx, stop := context.WithCancel(t.Context())
	var servers, readers, people sync.WaitGroup
	for _, p := range w.regions {
		servers.Go(func() { _ = p.server.Run(ctx) })
		readers.Go(func() { p.reader.run(ctx, sc.lines) })
	}
	for _, p := range w.people {
		people.Go(func() { p.run(ctx) })
	}
	w.within(10*time.Minute, &people, "people have written their lines")
	w.within(time.Minute, &readers, "every region has read every line")
	stop()
	readers.Wait()
	people.Wait()
	servers.Wait()
	return w
}

// wrote remembers that a person has written a line.
func (w *world) wrote(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[text] = time.Now()
}

// within waits for a group, for that long after the present.
func (w *world) within(limit time.Duration, group *sync.WaitGroup, what string) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		w.violate("not within %s: %s", limit, what)
	}
}

// schedule draws which region and which person are cut off.
func (w *world) schedule(rnd *rand.Rand) {
	at := func(d time.Duration) time.Time { return w.start.Add(d) }
	region := names[rnd.IntN(len(names))]
	for _, other := range names {
		if other != region {
			w.net.cuts = append(w.net.cuts, cut{region, other, at(w.plan.cutRegion[0]), at(w.plan.cutRegion[1])})
		}
	}
	w.net.cuts = append(w.net.cuts, cut{a: personName(rnd.IntN(w.scenario.people)), begin: at(w.plan.cutPerson[0]), end: at(w.plan.cutPerson[1])})
}

func personName(n int) string { return fmt.Sprintf("p%02d", n) }

// open makes the regions and the people.
func (w *world) open(rnd *rand.Rand) {
	for i, name := range names {
		peers := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		skew := time.Duration(rnd.Int64N(int64(4*time.Second))) - 2*time.Second
		r := Region{Name: name, Peers: peers, Now: func() time.Time { return time.Now().Add(skew) }, alone: w.alone}
		to := links{}
		for j, peer := range names {
			to[peer] = w.net.connect(name, peer, "link", time.Duration(10+15*max(i-j, j-i))*time.Millisecond)
		}
		p := &place{world: w, server: newServer(w.t, w.seed+uint64(i)<<32, r, configuration(r), to)}
		w.net.hosts[name] = p.server.handler
		p.reader = newReader(w, name, w.client("reader-"+name, name, "tail", time.Millisecond))
		w.regions = append(w.regions, p)
	}
	slow := rnd.IntN(w.scenario.people)
	for i := range w.scenario.people {
		latency := time.Duration(2+rnd.IntN(30)) * time.Millisecond
		if i == slow {
			latency = 500 * time.Millisecond
		}
		w.people = append(w.people, newPerson(w, i, w.regions[i%len(w.regions)], latency))
	}
}

// links is the network of a server.
type links map[string]*connection

func (l links) RoundTrip(r *http.Request) (*http.Response, error) { return l[r.URL.Host].RoundTrip(r) }

// configuration returns the configuration of a region.
func configuration(r Region) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nstreams:\n  %s: {admission: sequence, log: {retain: 24h}, destinations: [%s]}\ndestinations:\n", r.Name, Stream, strings.Join(r.Peers, ", "))
	for _, peer := range r.Peers {
		fmt.Fprintf(&b, "  %s: {once: \"http://%s\", stream: %s, relay: false, retry: {first: 100ms, max: 1s}}\n", peer, peer, Stream)
	}
	return b.String()
}

// client returns a client of a region. The pauses after failures are those of the network.
func (w *world) client(who, region, purpose string, latency time.Duration) *client.Client {
	o := client.Options{HTTP: &http.Client{Transport: w.net.connect(who, region, purpose, latency)}, MinBackoff: 1, MaxBackoff: 1}
	if w.renumbers && purpose == "send" {
		o.MaxElapsed = 1 // one try
	}
	c, err := client.New("http://"+region, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}
