package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// sendTime limits the sending of one load.
const sendTime = 15 * time.Minute

// concurrently calls do for every part of a load in several goroutines, and stops at the first
// error.
func concurrently[T any](ctx context.Context, t *testing.T, clients int, load []T, do func(context.Context, T) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	work := make(chan T)
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

// connections are shared by all senders.
var connections = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// An httpSender sends with the product's client and records the answers.
type httpSender struct {
	client *client.Client
	stream string

	mu    sync.Mutex
	fresh map[string]int // acknowledgements without "replayed", by identity
}

func newHTTPSender(t *testing.T, url, stream string) *httpSender {
	t.Helper()
	c, err := client.New(url, client.Options{HTTP: connections, MinBackoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, TryTimeout: 10 * time.Second})
	must(t, err)
	return &httpSender{client: c, stream: stream, fresh: map[string]int{}}
}

// send sends a message until it is acknowledged.
func (h *httpSender) send(ctx context.Context, m sent) error {
	receipt, err := h.client.Send(ctx, h.message(m))
	if err != nil {
		return err
	}
	h.acknowledged(m, receipt)
	return nil
}

// sendBatch sends messages in one request, until each is acknowledged.
func (h *httpSender) sendBatch(ctx context.Context, list []sent) error {
	messages := make([]client.Message, len(list))
	for i, m := range list {
		messages[i] = h.message(m)
	}
	for i, result := range h.client.SendBatch(ctx, messages) {
		if result.Err != nil {
			return result.Err
		}
		h.acknowledged(list[i], result.Receipt)
	}
	return nil
}

func (h *httpSender) message(m sent) client.Message {
	return client.Message{
		Stream: h.stream, Key: m.id, Group: m.group, Source: m.source, Sequence: m.sequence,
		ContentType: m.contentType, Headers: m.headers, Body: m.body,
	}
}

func (h *httpSender) acknowledged(m sent, receipt client.Receipt) {
	if receipt.Replayed {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh[m.identity()]++
}

// judge checks that no message was acknowledged as new twice. (Never is right too: the first answer
// may have been lost.)
func (h *httpSender) judge(t *testing.T) {
	t.Helper()
	for id, n := range h.fresh {
		if n > 1 {
			t.Errorf("clients were told %d times that %s is new", n, id)
		}
	}
}
