package embedded_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// ids records the bodies that receivers got under each id.
type ids struct {
	mu     sync.Mutex
	bodies map[string]string
	order  map[string][]string // the ids of a body's group, in the order of their first copies
	wrong  []string
}

func (x *ids) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id := r.Header.Get("webhook-id")
	x.mu.Lock()
	defer x.mu.Unlock()
	before, known := x.bodies[id]
	switch {
	case known && before != string(body):
		x.wrong = append(x.wrong, fmt.Sprintf("%s has the bodies %s and %s", id, before, body))
	case !known:
		x.bodies[id] = string(body)
		group, _, _ := strings.Cut(string(body), "-")
		x.order[group] = append(x.order[group], string(body))
	}
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReconfiguringUnderLoadLosesAndDoublesNothing changes the URL of a webhook 50 times, and adds
// and removes another destination and streams, while senders send.
func TestReconfiguringUnderLoadLosesAndDoublesNothing(t *testing.T) {
	got := &ids{bodies: map[string]string{}, order: map[string][]string{}}
	var urls []string
	for range 2 {
		server := httptest.NewServer(got)
		defer server.Close()
		urls = append(urls, server.URL)
	}
	text := func(n int) string {
		more, also := "", ""
		if n%3 == 0 {
			more, also = fmt.Sprintf("  extra: {file: %s/extra.jsonl}\n", t.TempDir()), ", extra"
		}
		return fmt.Sprintf("streams:\n  orders: {destinations: [shop%s], retry: {for: %dh}}\n  local: {destinations: []}\ndestinations:\n  shop: {webhook: %q, retry: {first: 10ms, max: %dms}}\n%s",
			also, n%5+1, urls[n%2], n%7+20, more)
	}
	p := &place{t: t, dir: t.TempDir(), config: text(1)}
	s := p.start()
	defer s.stop()
	const groups = 8
	var sent [groups]int
	var stop atomic.Bool
	var senders sync.WaitGroup
	progress := make(chan struct{})
	for g := range groups {
		senders.Go(func() {
			for n := 0; !stop.Load(); n++ {
				key := fmt.Sprintf("g%d-%d", g, n)
				if _, err := s.client.Send(t.Context(), client.Message{Stream: "orders", Group: fmt.Sprint("g", g), Key: key, Body: []byte(key), ContentType: "text/plain"}); err != nil {
					t.Errorf("send %s: %v", key, err)
					return
				}
				if _, err := s.client.Send(t.Context(), client.Message{Stream: "local", Group: fmt.Sprint("g", g), Key: key, Body: []byte(key), ContentType: "text/plain"}); err != nil {
					t.Errorf("send %s: %v", key, err)
					return
				}
				sent[g]++
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for n := range 50 {
		if changed, err := s.Reconfigure(t.Context(), parse(t, text(n))); err != nil || n > 1 && len(changed) == 0 {
			t.Errorf("reload %d: changed %v, %v", n, changed, err)
		}
		<-progress
	}
	stop.Store(true)
	senders.Wait()
	if _, err := s.Reconfigure(t.Context(), parse(t, text(0))); err != nil { // with all destinations
		t.Fatal(err)
	}
	if stats := s.idle(t); stats.DeadLetters != 0 {
		t.Errorf("%d dead letters, want none", stats.DeadLetters)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	total := 0
	for g := range groups {
		total += sent[g]
		order := got.order[fmt.Sprint("g", g)]
		if len(order) != sent[g] {
			t.Errorf("group %d: %d messages arrived, want %d", g, len(order), sent[g])
		}
		for n, body := range order {
			if want := fmt.Sprintf("g%d-%d", g, n); body != want {
				t.Fatalf("group %d: message %d is %s, want %s", g, n, body, want)
			}
		}
	}
	if len(got.wrong) > 0 || len(got.bodies) != total {
		t.Errorf("%d ids for %d messages; %v", len(got.bodies), total, got.wrong)
	}
	if total == 0 {
		t.Error("nothing was sent")
	}
}

func TestAFailingEffectIsTriedAtOnceAtTheNewURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &memnet.Network{}
		down := newReceiverIn(t, net, func(string, int) int { return http.StatusServiceUnavailable })
		up := newReceiverIn(t, net, func(string, int) int { return http.StatusOK })
		text := func(url string) string {
			return fmt.Sprintf("streams: {orders: {destinations: [shop]}}\ndestinations: {shop: {webhook: %q, retry: {first: 10m, max: 10m}}}", url)
		}
		p := &place{t: t, dir: t.TempDir(), net: net, config: text(down.url)}
		s := p.start()
		defer s.stop()
		s.send(t, client.Message{Stream: "orders", Group: "g", Key: "k", Body: []byte("one"), ContentType: "text/plain"})
		awaitThat(t, "the first try fails", func() bool {
			g, err := s.Group(t.Context(), "orders", "g")
			return err == nil && len(g.Waiting) == 1 && g.Waiting[0].Tries > 0
		})
		changed, err := s.Reconfigure(t.Context(), parse(t, text(up.url)))
		if err != nil || len(changed) != 1 || changed[0] != "destinations.shop.webhook" {
			t.Errorf("changed %v, %v; want the URL", changed, err)
		}
		if stats := s.idle(t); stats.DeadLetters != 0 {
			t.Errorf("%d dead letters, want none", stats.DeadLetters)
		}
		if up.count("one") != 1 {
			t.Errorf("the new URL got it %d times, want 1", up.count("one"))
		}
		if g, err := s.Group(t.Context(), "orders", "g"); err == nil && len(g.Waiting) != 0 {
			t.Errorf("it still waits: %+v", g.Waiting)
		}
	})
}

func TestAnEffectWaitsForItsDestinationUntilThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := &memnet.Network{}
		down := newReceiverIn(t, net, func(string, int) int { return http.StatusServiceUnavailable })
		up := newReceiverIn(t, net, func(string, int) int { return http.StatusOK })
		with := func(url string) string {
			return fmt.Sprintf("streams: {orders: {destinations: [shop]}}\ndestinations: {shop: {webhook: %q}}", url)
		}
		p := &place{t: t, dir: t.TempDir(), net: net, config: with(down.url)}
		s := p.start()
		defer s.stop()
		s.send(t, client.Message{Stream: "orders", Group: "g", Key: "k", Body: []byte("one"), ContentType: "text/plain"})
		awaitThat(t, "the first try fails", func() bool { return down.count("one") > 0 })
		if _, err := s.Reconfigure(t.Context(), parse(t, "streams: {orders: {}}")); err != nil {
			t.Fatal(err)
		}
		s.send(t, client.Message{Stream: "orders", Group: "other", Key: "k2", Body: []byte("two"), ContentType: "text/plain"})
		g, err := s.Group(t.Context(), "orders", "g")
		if err != nil || len(g.Pending) != 1 {
			t.Errorf("got %+v, %v; want one pending effect", g, err)
		}
		if _, err := s.Reconfigure(t.Context(), parse(t, with(up.url))); err != nil {
			t.Fatal(err)
		}
		s.idle(t)
		if up.count("one") == 0 || up.count("two") != 0 {
			t.Errorf("the destination got the first message %d times and the second %d times, want one of the first only", up.count("one"), up.count("two"))
		}
	})
}

func TestAConfigurationIsTakenAsAWholeOrNotAtAll(t *testing.T) {
	up := newReceiver(t, func(string, int) int { return http.StatusOK })
	dir := t.TempDir()
	old := fmt.Sprintf("streams: {orders: {destinations: [shop]}}\ndestinations: {shop: {webhook: %q}}", up.url)
	p := &place{t: t, dir: dir, config: old}
	s := p.start()
	defer s.stop()
	for name, c := range map[string]struct{ text, want string }{
		"an admission":            {strings.ReplaceAll(old, "[shop]", "[shop], admission: token") + "\n", "restart to apply streams.orders.admission"},
		"a removed stream":        {strings.ReplaceAll(old, "orders", "others"), "restart to apply streams.orders (removed)"},
		"a missing secret":        {strings.ReplaceAll(old, "\"}}", "\", secret: \"env:ONCE_NOT_SET\"}, more: {file: "+dir+"/more}}"), "open destination shop: resolve secret env:ONCE_NOT_SET: is missing or empty"},
		"a file that is a folder": {strings.ReplaceAll(old, "\"}}", "\"}, more: {file: "+dir+"}}"), "open destination more"},
	} {
		changed, err := s.Reconfigure(t.Context(), parse(t, c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || changed != nil {
			t.Errorf("%s: got %v, %v; want %q", name, changed, err, c.want)
		}
		needed, restart := errors.AsType[*embedded.RestartError](err)
		if restart != strings.HasPrefix(c.want, "restart") || restart && len(needed.Fields) == 0 {
			t.Errorf("%s: got a restart of %+v", name, needed)
		}
		s.send(t, client.Message{Stream: "orders", Group: "g", Key: name, Body: []byte(name), ContentType: "text/plain"})
		awaitThat(t, name+": the old configuration works", func() bool { return up.count(name) == 1 })
	}
}

func (r *receiver) count(body string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries[body]
}

func awaitThat(t *testing.T, what string, holds func() bool) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		if !holds() {
			return errors.New(what)
		}
		return nil
	})
}
