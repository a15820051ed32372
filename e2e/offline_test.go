package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

var offlineFunctions = flag.Int("offline-functions", 100, "how many messages clients send to one log of the functions while both are killed")

const offlineConfiguration = `
streams:
  room: {admission: sequence, log: {retain: 1h}, limits: {ranges: 20000}} # a shuffled window of each source is held
`

// An offline run is many clients and readers of one log.
type offline struct {
	runners []*runner
	readers []*runner
	sources []string
	each    int
	planned map[string]int // kills of processes, by kind
}

// newOffline prepares the processes of a run with this many messages of shuffling clients. As many
// senders with a folder as there are readers send to the same log. Paced clients have one window in
// flight: on the functions, a backlog beyond the bounds of held messages drains slowly.
func newOffline(t *testing.T, url string, random *rand.Rand, messages int, paced bool) *offline {
	t.Helper()
	sources := min(50, max(10, messages/2000))
	o := &offline{each: messages / sources}
	clients, folder := sources*2/5, t.TempDir()
	add := func(name string, r role) *runner {
		r.URL, r.Each, r.Folder, r.Seed = url, o.each, filepath.Join(folder, name), random.Uint64()
		must(t, os.Mkdir(r.Folder, 0o700))
		o.sources = append(o.sources, r.Sources...)
		x := &runner{role: r, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
		o.runners = append(o.runners, x)
		return x
	}
	for i := range clients {
		var own []string
		for s := i; s < sources; s += clients {
			own = append(own, fmt.Sprint("source-", s))
		}
		add(fmt.Sprint("shuffle-", i), role{Kind: "shuffle", Sources: own, Window: 500, Paced: paced})
	}
	const readers = 3
	for i := range readers {
		add(fmt.Sprint("send-", i), role{Kind: "send", Sources: []string{fmt.Sprint("phone-", i)}})
	}
	for i := range readers {
		o.readers = append(o.readers, add(fmt.Sprint("read-", i), role{Kind: "read", Total: len(o.sources) * o.each}))
	}
	return o
}

// play runs all processes to their end, and kills them so many times in all: each kind of process
// at least once. It kills the server too, half as often, at random positions of the log. strike
// kills the server and starts it again; it may be nil.
func (o *offline) play(t *testing.T, url string, random *rand.Rand, times int, strike func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.plan(random, times)
	for _, r := range o.runners {
		r.start(ctx)
	}
	killed := map[string]int{}
	if strike == nil {
		strike, times = func() error { return nil }, 0
	}
	o.strikeAt(ctx, t, url, moments(random, times/2, len(o.sources)*o.each/2), func() error {
		killed["server"]++
		return strike()
	})
	for _, r := range o.runners {
		must(t, <-r.done)
		killed[r.role.Kind] += r.killed
	}
	t.Logf("%d messages, %d sources, %d processes, kills: %v", len(o.sources)*o.each, len(o.sources), len(o.runners), killed)
	for kind, least := range o.planned {
		if killed[kind] != least {
			t.Errorf("%d processes of kind %s were killed during their work, not %d", killed[kind], kind, least)
		}
	}
}

// plan deals kills to the processes: one to a process of each kind, the others at random.
func (o *offline) plan(random *rand.Rand, times int) {
	o.planned = map[string]int{}
	for _, i := range random.Perm(len(o.runners)) {
		if r := o.runners[i]; o.planned[r.role.Kind] == 0 {
			r.kills++
			o.planned[r.role.Kind]++
		}
	}
	for range times - len(o.planned) {
		r := o.runners[random.IntN(len(o.runners))]
		r.kills++
		o.planned[r.role.Kind]++
	}
}

// strikeAt follows the log to its end, and calls strike at each position.
func (o *offline) strikeAt(ctx context.Context, t *testing.T, url string, at []int64, strike func() error) {
	t.Helper()
	c, err := client.New(url, client.Options{MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second, TryTimeout: 10 * time.Second})
	must(t, err)
	tail := c.Tail(offlineRoom, offlineGroup, client.TailOptions{Wait: 2 * time.Second})
	for n := range int64(len(o.sources) * o.each) {
		next, failed := o.nextOf(ctx, tail)
		must(t, failed)
		if int64(next.Number) != n+1 {
			t.Fatalf("entry %d follows %d", next.Number, n)
		}
		for ; len(at) > 0 && at[0] <= n+1; at = at[1:] {
			must(t, strike())
		}
	}
}

// nextOf returns the next entry. If a process ends with an error meanwhile, it returns that one.
func (o *offline) nextOf(ctx context.Context, tail *client.Tail) (client.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	e, err := tail.Next(ctx)
	if err == nil {
		return e, nil
	}
	for _, r := range o.runners {
		select {
		case failed := <-r.done:
			err = errors.Join(err, failed)
		default:
		}
	}
	return e, err
}

// judge checks the files of the readers: all have the same entries, numbered without holes, with
// each message of each source once and in order.
func (o *offline) judge(t *testing.T) {
	t.Helper()
	first := ""
	for i, r := range o.readers {
		text, err := os.ReadFile(filepath.Join(r.role.Folder, "read"))
		must(t, err)
		if i == 0 {
			first = string(text)
		} else if string(text) != first {
			t.Errorf("reader %d has read another order than reader 0", i)
		}
	}
	next, number := map[string]int{}, 0
	for line := range strings.Lines(first) {
		var source, body, offset string
		var n, sequence, said int
		if _, err := fmt.Sscan(line, &n, &source, &sequence, &body, &said, &offset); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		number++
		next[source]++
		if n != number || body != source || said != sequence || sequence != next[source] {
			t.Fatalf("line %d is %q; the next of %s is %d", number, line, source, next[source])
		}
	}
	for _, source := range o.sources {
		if next[source] != o.each {
			t.Errorf("%d messages of %s, not %d", next[source], source, o.each)
		}
	}
	if len(next) != len(o.sources) {
		t.Errorf("%d sources, not %d", len(next), len(o.sources))
	}
}

func TestReadersOfOneLogReadOneOrderWhileServerClientsAndReadersAreKilled(t *testing.T) {
	random := newRandom(t)
	s := newServer(t, onceBinary, offlineConfiguration)
	must(t, s.start())
	o := newOffline(t, s.url(), random, *messages, false)
	o.play(t, s.url(), random, *kills, func() error {
		if err := s.kill(); err != nil {
			return err
		}
		return s.start()
	})
	o.judge(t)
	must(t, s.stop())
}

func TestReadersOfOneLogReadOneOrderWhileTheFunctionsAreKilled(t *testing.T) {
	random := newRandom(t)
	d := newDeployment(t, newReceiver(t, 0), append(faults(), "--kill-nth", "5", "--sweep-every", "1s", "--batch", "100", "--batches", "1")...)
	must(t, d.configure(offlineConfiguration))
	must(t, d.start())
	o := newOffline(t, d.url(), random, *offlineFunctions, true) // one group: its commits follow one another
	o.play(t, d.url(), random, max(3, *kills/2), nil)
	o.judge(t)
	done := d.peace(t)
	t.Logf("faults of the functions: %v", done)
	if done["kills"] == 0 || done["duplicates"] == 0 {
		t.Error("no function was killed, or no delivery was duplicated")
	}
}
