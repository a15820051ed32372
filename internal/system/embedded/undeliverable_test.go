package embedded_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

const posting = `
streams:
  orders: {destinations: [shop]}
destinations:
  shop: {webhook: "URL", retry: {first: 20ms, max: 100ms, for: FOR}}
`

// A receiver is a webhook receiver whose answers the test decides.
type receiver struct {
	url string
	net *memnet.Network // nil for the real one

	mu     sync.Mutex
	answer func(body string, try int) int // a status
	tries  map[string]int
	got    []string // what was answered with 200, in order
}

func newReceiver(t *testing.T, answer func(body string, try int) int) *receiver {
	t.Helper()
	return newReceiverIn(t, nil, answer)
}

// newReceiverIn returns a receiver in a network with virtual time.
func newReceiverIn(t *testing.T, net *memnet.Network, answer func(body string, try int) int) *receiver {
	t.Helper()
	r := &receiver{net: net, answer: answer, tries: map[string]int{}}
	if net != nil {
		server := net.Serve(&http.Server{Handler: r})
		t.Cleanup(server.Close)
		r.url = server.URL
		return r
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries[string(body)]++
	status := r.answer(string(body), r.tries[string(body)])
	if status == http.StatusOK {
		r.got = append(r.got, string(body))
	}
	w.WriteHeader(status)
	if status != http.StatusOK {
		_, _ = io.WriteString(w, "field x missing") // the sender may have disconnected
	}
}

func (r *receiver) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *receiver) triesOf(body string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tries[body]
}

func (r *receiver) place(t *testing.T, long string) *place {
	t.Helper()
	return &place{t: t, dir: t.TempDir(), net: r.net, config: strings.NewReplacer("URL", r.url, "FOR", long).Replace(posting)}
}

// sendAll sends messages 1 to n to group g.
func (r *running) sendAll(t *testing.T, n int) (bodies []string) {
	t.Helper()
	for i := range n {
		body := strconv.Itoa(i + 1)
		r.send(t, client.Message{Stream: "orders", Key: "m" + body, Group: "g", Headers: map[string]string{"trace": "t-" + body}, Body: []byte(body)})
		bodies = append(bodies, body)
	}
	return bodies
}

func TestAReceiverThatFailsForAWhileGetsEveryEffectInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := newReceiverIn(t, &memnet.Network{}, func(_ string, try int) int {
			return []int{500, 500, 404, 400, 503, 200}[min(try-1, 5)] // 4xx ends a Send, and 5xx does not
		})
		r := shop.place(t, "1h").start()
		defer r.stop()
		want := r.sendAll(t, 10)
		if stats := r.idle(t); stats.DeadLetters != 0 {
			t.Errorf("%d dead letters", stats.DeadLetters)
		}
		if d := cmp.Diff(want, shop.received()); d != "" {
			t.Errorf("received (-want +got):\n%s", d)
		}
	})
}

func TestAnEffectThatIsNeverTakenIsADeadLetterWithTheAnswerAndTheNextOnesAreDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shop := newReceiverIn(t, &memnet.Network{}, func(body string, _ int) int {
			if body == "2" {
				return 400
			}
			return 200
		})
		r := shop.place(t, "2s").start()
		defer r.stop()
		begun := time.Now()
		r.sendAll(t, 4)
		stats := r.idle(t)
		if took := time.Since(begun); stats.DeadLetters != 1 || took < time.Second || took > 3*time.Second { // commit times are whole seconds
			t.Errorf("%d dead letters after %v", stats.DeadLetters, took)
		}
		if d := cmp.Diff([]string{"1", "3", "4"}, shop.received()); d != "" {
			t.Errorf("received (-want +got):\n%s", d)
		}
		if n := shop.triesOf("2"); n < 2 || n > 200 {
			t.Errorf("%d tries in 2 seconds, with pauses of at most 100 ms", n)
		}
		letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{Content: -1})
		if err != nil || len(letters) != 1 {
			t.Fatalf("%+v, %v", letters, err)
		}
		l := letters[0]
		if l.Reason != "undeliverable" || l.Detail != "400 Bad Request: field x missing" || l.ID != "orders/g/2" || l.Destination != "shop" {
			t.Errorf("%+v", l)
		}
		if c := l.Content; c == nil || c.Headers["Trace"] != "t-2" || c.Bytes != 1 {
			t.Errorf("content %+v", l.Content)
		}
	})
}

func TestASkippedEffectIsADeadLetterAndTheNextOnesAreDeliveredWithTheSystemRunningOrStopped(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprint("stopped ", stopped), func(t *testing.T) {
			t.Parallel()
			refused := make(chan struct{}, 1000)
			shop := newReceiver(t, func(body string, _ int) int {
				if body == "2" {
					refused <- struct{}{}
					return 422
				}
				return 200
			})
			p := shop.place(t, "72h")
			r := p.start()
			r.sendAll(t, 3)
			<-refused
			skip := admin.SkipOptions{Stream: "orders", Group: "g", Number: 2}
			var info admin.SkipInfo
			var err error
			if stopped {
				r.stop()
				info, err = p.skipStopped(skip)
				r = p.start()
			} else {
				info, err = r.Skip(t.Context(), skip)
			}
			defer r.stop()
			if err != nil || !slices.Equal(info.Destinations, []string{"shop"}) {
				t.Fatalf("%+v, %v", info, err)
			}
			if stats := r.idle(t); stats.DeadLetters != 1 {
				t.Errorf("%d dead letters", stats.DeadLetters)
			}
			if d := cmp.Diff([]string{"1", "3"}, shop.received()); d != "" {
				t.Errorf("received (-want +got):\n%s", d)
			}
			letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{ID: "orders/g/2"})
			if err != nil || len(letters) != 1 || letters[0].Reason != "undeliverable" || letters[0].Detail != "skipped by an operator" {
				t.Errorf("%+v, %v", letters, err)
			}
			for _, number := range []uint64{0, 1, 2, 3, 4, 1 << 63} {
				skip.Number = number
				if _, err := r.Skip(t.Context(), skip); err == nil || !strings.Contains(err.Error(), "not found") {
					t.Errorf("skip of %d, which is not pending: %v", number, err)
				}
			}
		})
	}
}

// skipStopped skips an effect in the folder of a system that does not run.
func (p *place) skipStopped(o admin.SkipOptions) (admin.SkipInfo, error) {
	p.t.Helper()
	c, err := config.Parse("test", []byte(p.config))
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: p.data(), Inspect: true})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			p.t.Error(err)
		}
	}()
	if _, err := s.Start(nil); err != nil {
		p.t.Fatal(err)
	}
	return s.Skip(p.t.Context(), o)
}

func TestASkippedEffectToAFileIsWrittenWhenItIsRedrivenAfterTheNextOnes(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  orders: {destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl, retry: {first: 20ms, max: 100ms}}
`}
	r := p.start()
	defer func() { r.stop() }()
	send := func(body string) {
		r.send(t, client.Message{Stream: "orders", Key: "m" + body, Group: "g", Body: []byte(body)})
	}
	send("1")
	r.idle(t)
	path := filepath.Join(p.dir, "ledger.jsonl")
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil { // no line can be written
		t.Fatal(err)
	}
	send("2")
	send("3")
	eventually.Succeeds(t, func() error { // when it is committed
		_, err := r.Skip(t.Context(), admin.SkipOptions{Stream: "orders", Group: "g", Number: 2})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Fatal(err)
		}
		return err
	})
	r.stop() // or it could begin a new file in between
	if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}
	r = p.start()
	r.idle(t)
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{}); err != nil || info.Redriven != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if stats := r.idle(t); stats.DeadLetters != 0 {
		t.Errorf("%d dead letters", stats.DeadLetters)
	}
	var numbers []uint64
	for _, l := range p.lines() {
		numbers = append(numbers, l.Number)
	}
	if d := cmp.Diff([]uint64{1, 3, 2}, numbers); d != "" {
		t.Errorf("written (-want +got):\n%s", d)
	}
}
