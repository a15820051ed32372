package embedded_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

// A region is a running system.
type region struct {
	*testing.T
	sys *once.System
	url string
}

// link opens a system and runs it. Its server exists before it, because systems that are linked
// both ways need each other's URLs.
func link(t *testing.T, server *httptest.Server, config string) region {
	t.Helper()
	sys, err := embedded.Open(t.TempDir(), embedded.Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler, err = sys.Handler()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	})
	return region{t, sys, server.URL}
}

func servers(t *testing.T, n int) []*httptest.Server {
	t.Helper()
	list := make([]*httptest.Server, n)
	for i := range list {
		list[i] = httptest.NewServer(nil)
		t.Cleanup(list[i].Close)
	}
	return list
}

func (r region) client() *client.Client {
	r.Helper()
	c, err := client.New(r.url, client.Options{})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func (r region) say(bodies ...string) {
	r.Helper()
	for _, body := range bodies {
		_, err := r.client().Send(r.Context(), client.Message{Stream: "room", Group: "lobby", Key: body, Source: "people", Sequence: r.next(body), Body: []byte(body)})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// next returns the number in a body such as m-3.
func (r region) next(body string) (n uint64) {
	r.Helper()
	if _, err := fmt.Sscanf(body[strings.LastIndex(body, "-")+1:], "%d", &n); err != nil {
		r.Fatal(err)
	}
	return n
}

// read returns the first entries of the room's log.
func (r region) read(n int) (entries []client.Entry) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 60*time.Second)
	defer cancel()
	tail := r.client().Tail("room", "lobby", client.TailOptions{})
	for len(entries) < n {
		e, err := tail.Next(ctx)
		if err != nil {
			r.Fatalf("after %d of %d entries, %q: %v", len(entries), n, bodies(entries), err)
		}
		entries = append(entries, e)
	}
	return entries
}

// bodies describes entries: the kind of a gap, otherwise the body, and the way.
func bodies(entries []client.Entry) (out []string) {
	for _, e := range entries {
		text := string(e.Body)
		if e.Kind == "gap" {
			text = fmt.Sprintf("gap %d-%d", e.From, e.To)
		}
		out = append(out, strings.TrimSpace(text+" "+strings.Join(e.Via, ",")))
	}
	return out
}

const room = "\nstreams:\n  room: {admission: sequence, log: {retain: 1h}, destinations: [%s]}\ndestinations:\n"

func TestSystemsThatAreLinkedBothWaysHaveEachMessageOnce(t *testing.T) {
	s := servers(t, 2)
	eu := link(t, s[0], fmt.Sprintf("name: eu"+room+"  us: {once: %q, stream: room, relay: false}\n", "us", s[1].URL))
	us := link(t, s[1], fmt.Sprintf("name: us"+room+"  eu: {once: %q, stream: room, relay: false}\n", "eu", s[0].URL))
	eu.say("e-1", "e-2")
	if got := bodies(us.read(2)); !slices.Equal(got, []string{"e-1 eu", "e-2 eu"}) {
		t.Errorf("us has %q", got)
	}
	us.say("u-1", "u-2")
	if got := bodies(eu.read(4)); !slices.Equal(got, []string{"e-1", "e-2", "u-1 us", "u-2 us"}) {
		t.Errorf("eu has %q", got)
	}
	eu.say("e-3")
	entries := us.read(5)
	if got := bodies(entries); !slices.Equal(got, []string{"e-1 eu", "e-2 eu", "u-1", "u-2", "e-3 eu"}) {
		t.Errorf("us has %q", got)
	}
	last := entries[4]
	if last.Source != "eu/us/room/lobby" || last.Sequence != 3 || last.Epoch == 0 {
		t.Errorf("source %s, epoch %d, sequence %d", last.Source, last.Epoch, last.Sequence)
	}
}

func TestALoopOfThreeSystemsIsRefusedAndTheGroupGoesOn(t *testing.T) {
	s := servers(t, 3)
	var regions []region
	for i, name := range []string{"a", "b", "c"} {
		next := (i + 1) % 3
		to := []string{"a", "b", "c"}[next]
		regions = append(regions, link(t, s[i], fmt.Sprintf("name: "+name+room+"  %s: {once: %q, stream: room}\n", to, to, s[next].URL)))
	}
	a, b, c := regions[0], regions[1], regions[2]
	a.say("x-1", "x-2")
	if got := bodies(c.read(2)); !slices.Equal(got, []string{"x-1 a,b", "x-2 a,b"}) {
		t.Errorf("c has %q", got)
	}
	// c's numbers 1 and 2 to a come back to their beginning; its number 3 does not
	c.say("y-1")
	if got := bodies(a.read(5)); !slices.Equal(got, []string{"x-1", "x-2", "gap 1-1", "gap 2-2", "y-1 c"}) {
		t.Errorf("a has %q", got)
	}
	if got := bodies(b.read(3)); !slices.Equal(got, []string{"x-1 a", "x-2 a", "y-1 c,a"}) {
		t.Errorf("b has %q", got)
	}
}
