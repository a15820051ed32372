package e2e

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// sendTime bounds the sending of one load.
const sendTime = 15 * time.Minute

// copies puts each message several times into one load: the first in the given order, a second one shortly behind it, so that two are often under way
// at once, and the others anywhere later.
func copies(random *rand.Rand, list []sent, times int) []sent {
	type placed struct {
		at float64
		m  sent
	}
	all := make([]placed, 0, len(list)*times)
	for i, m := range list {
		at := float64(i)
		all = append(all, placed{at, m})
		for n := 1; n < times; n++ {
			behind := at + random.Float64()*16
			if n > 1 {
				behind = at + random.Float64()*float64(len(list)-i)
			}
			all = append(all, placed{behind, m})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]sent, len(all))
	for i := range all {
		out[i] = all[i].m
	}
	return out
}

// concurrently calls do for every message with so many goroutines, and stops at the first error.
func concurrently(t *testing.T, clients int, load []sent, do func(context.Context, sent) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sendTime)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	work := make(chan sent)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for m := range work {
				if err := do(ctx, m); err != nil {
					fail(err)
				}
			}
		})
	}
	for _, m := range load {
		select {
		case work <- m:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	wg.Wait()
	must(t, context.Cause(ctx))
}

// An httpSender sends with the product's client and keeps what it was told.
type httpSender struct {
	client *client.Client
	stream string

	mu    sync.Mutex
	fresh map[string]int // acknowledgements that did not say "replayed", by identity
}

func newHTTPSender(t *testing.T, s *server, stream string) *httpSender {
	t.Helper()
	c, err := client.New(s.url(), client.Options{MinBackoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, TryTimeout: 10 * time.Second})
	must(t, err)
	return &httpSender{client: c, stream: stream, fresh: map[string]int{}}
}

// send sends a message until it is acknowledged.
func (h *httpSender) send(ctx context.Context, m sent) error {
	receipt, err := h.client.Send(ctx, client.Message{
		Stream: h.stream, Key: m.id, Group: m.group, Source: m.source, Sequence: m.sequence,
		ContentType: m.contentType, Headers: m.headers, Body: m.body,
	})
	if err != nil {
		return err
	}
	if !receipt.Replayed {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fresh[m.identity()]++
	}
	return nil
}

// judge checks that no message was called new twice. (None at all is right too: the first answer may have been lost.)
func (h *httpSender) judge(t *testing.T) {
	t.Helper()
	for id, n := range h.fresh {
		if n > 1 {
			t.Errorf("clients were told %d times that %s is new", n, id)
		}
	}
}
