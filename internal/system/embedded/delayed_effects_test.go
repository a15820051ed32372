package embedded_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// Each message has an effect now and one later for each destination. Effects that have a number at
// their destination would wait for a delayed one for ever if it took one of these numbers.
func TestDelayedEffectsReachDestinationsOfEachKindOnceAlsoThoseOfAStatelessHandler(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"state": false, "stateless": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				hooked := map[string]string{} // bodies by identity
				calls := 0
				net := &memnet.Network{}
				hook := net.Serve(&http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					mu.Lock()
					defer mu.Unlock()
					hooked[r.Header.Get("webhook-id")], calls = string(body), calls+1
				})})
				defer hook.Close()
				p := &place{t: t, dir: t.TempDir(), net: net, config: "streams: {orders: {}, copies: {destinations: [ledger]}}\n" +
					"destinations: {ledger: {file: DIR/ledger.jsonl}, copy: {stream: copies}, hook: {webhook: \"" + hook.URL + "\"}}\n"}
				orders := system.Stream{Stream: record.Stream{Name: "orders", Stateless: stateless, Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
					for _, to := range []string{"copy", "hook"} {
						e := record.Effect{To: []string{to}, ContentType: "application/json", Body: []byte(`"` + m.ID + ` later"`)}
						if err := a.SendAfter(e, 2*time.Second); err != nil {
							return err
						}
						e.Body = []byte(`"` + m.ID + ` now"`)
						a.Send(e)
					}
					return nil
				}}}
				r := p.start(orders)
				for _, id := range []string{"a", "b"} {
					r.send(t, client.Message{Stream: "orders", Key: id, Group: "g"})
					r.idle(t)
				}
				r.stop()
				r = p.start(orders)
				p.awaitLines(t, 4)
				eventually.Succeeds(t, func() error {
					mu.Lock()
					defer mu.Unlock()
					if len(hooked) != 4 {
						return fmt.Errorf("the webhook got %v", hooked)
					}
					return nil
				})
				r.idle(t)
				r.stop()
				var copies []string
				for _, l := range p.lines() {
					text, _ := l.Body.(string)
					copies = append(copies, text)
				}
				slices.Sort(copies)
				if want := []string{"a later", "a now", "b later", "b now"}; !slices.Equal(copies, want) {
					t.Errorf("the stream copies forwarded %q, want %q, each once", copies, want)
				}
				want := map[string]string{"orders/g/3": `"a later"`, "orders/g/4": `"a now"`, "orders/g/7": `"b later"`, "orders/g/8": `"b now"`}
				if !maps.Equal(hooked, want) || calls != len(want) {
					t.Errorf("the webhook got %d calls with %v, want one for each of %v", calls, hooked, want)
				}
			})
		})
	}
}

// The other system is restarted between its messages, and the sender before the later ones are due.
func TestDelayedEffectsReachAnotherSystemOnceThoughBothAreRestarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &memnet.Network{}
		there := &place{t: t, dir: t.TempDir(), net: net, config: "name: there\nstreams: {copies: {destinations: [ledger]}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
		peer := there.start()
		var behind http.Handler
		var mu sync.Mutex
		forward := func(address string) {
			mu.Lock()
			defer mu.Unlock()
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
			proxy.Transport, behind = net.Transport(), proxy
		}
		forward(peer.address)
		door := net.Serve(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // the address of there
			mu.Lock()
			h := behind
			mu.Unlock()
			h.ServeHTTP(w, r)
		})})
		defer door.Close()
		here := &place{t: t, dir: t.TempDir(), net: net, config: "name: here\nstreams: {orders: {}}\ndestinations: {there: {once: \"" + door.URL + "\", stream: copies, retry: {max: 200ms}}}\n"}
		orders := system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
			for _, after := range []time.Duration{2 * time.Second, 0, time.Second} {
				e := record.Effect{To: []string{"there"}, ContentType: "text/plain", Body: []byte(m.ID + " after " + after.String())}
				if err := a.SendAfter(e, after); err != nil {
					return err
				}
			}
			return nil
		}}}
		r := here.start(orders)
		r.send(t, client.Message{Stream: "orders", Key: "a", Group: "g"})
		there.awaitLines(t, 1)
		peer.stop()
		r.send(t, client.Message{Stream: "orders", Key: "b", Group: "g"})
		r.stop()
		r = here.start(orders)
		peer = there.start()
		forward(peer.address)
		there.awaitLines(t, 6)
		r.idle(t)
		r.stop()
		peer.idle(t)
		peer.stop()
		var got []string
		for _, l := range there.lines() {
			text, _ := l.Body.(string)
			got = append(got, text)
		}
		slices.Sort(got)
		if want := []string{"a after 0s", "a after 1s", "a after 2s", "b after 0s", "b after 1s", "b after 2s"}; !slices.Equal(got, want) {
			t.Errorf("the other system forwarded %q, want %q, each once", got, want)
		}
	})
}
