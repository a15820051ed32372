package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/e2e/chaos"
)

// A journal is a file of JSON lines with concurrent writers.
type journal struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	err  error
}

func newJournal(folder, name string) (*journal, error) {
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return nil, err
	}
	return &journal{file: file, w: bufio.NewWriterSize(file, 1<<20)}, nil
}

func (j *journal) write(entry any) {
	text, err := json.Marshal(entry)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		_, err = j.w.Write(append(text, '\n'))
	}
	j.err = errors.Join(j.err, err)
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.w.Flush(), j.file.Close())
}

// hurlers are the clients of a chaos run. They send each message until it is acknowledged, and
// write down the answers.
type hurlers struct {
	url           string
	http          *client.Client
	sqs           map[string]*sqsSender // by stream
	offered, told *journal
	accepted      atomic.Int64 // parcels
	handled       func() int64 // effects received so far, without copies
	tries         atomic.Int64 // retries, by HTTP
}

func newHurlers(t *testing.T, folder, url string, senders map[string]*sqsSender, handled func() int64) *hurlers {
	t.Helper()
	h := &hurlers{url: url, sqs: senders, handled: handled}
	var err error
	h.http, err = client.New(url, client.Options{
		HTTP: connections, MinBackoff: 10 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, TryTimeout: 10 * time.Second,
		OnRetry: func(error, time.Duration) { h.tries.Add(1) },
	})
	must(t, err)
	h.offered, err = newJournal(folder, "offered.jsonl")
	must(t, err)
	h.told, err = newJournal(folder, "told.jsonl")
	must(t, err)
	return h
}

// hurl offers new messages until their number is reached, and then repeats some of them. Each
// client sends the next parcel when the last one is acknowledged.
func (h *hurlers) hurl(ctx context.Context, load *chaosLoad, until, clients int) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	work := make(chan parcel)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for p := range work {
				if err := h.send(ctx, p); err != nil {
					fail(err)
				}
				h.accepted.Add(1)
			}
		})
	}
	offer := func(parcels []parcel) {
		for _, p := range parcels {
			select {
			case work <- p:
			case <-ctx.Done():
				return
			}
		}
	}
	for load.made < until && ctx.Err() == nil {
		if err := h.wait(ctx, int64(load.made-*chaosLead)); err != nil {
			break // the context has ended
		}
		fresh, parcels := load.block(min(until-load.made, chaosBlock))
		for _, m := range fresh {
			h.offered.write(m.offer())
		}
		offer(parcels)
	}
	if load.made == load.messages {
		offer(load.late())
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// wait waits for a number of effects, as long as any arrive. Without it, a system that is killed
// all the time would spend it on reading an ever longer backlog at each start.
func (h *hurlers) wait(ctx context.Context, effects int64) error {
	last := h.handled()
	for quiet := 0; last < effects && quiet < looks(*chaosPatience); quiet++ {
		if err := sleep(ctx, settleEvery); err != nil {
			return err
		}
		if n := h.handled(); n != last {
			last, quiet = n, 0
		}
	}
	return nil
}

func (h *hurlers) send(ctx context.Context, p parcel) error {
	switch {
	case p.reuse:
		return h.reuse(ctx, p.messages[0], p.sqs)
	case p.sqs:
		return h.bySQS(ctx, p)
	}
	return h.byHTTP(ctx, p.messages[0])
}

func (h *hurlers) byHTTP(ctx context.Context, m *hurled) error {
	receipt, err := h.http.Send(ctx, m.message(m.stream))
	if err != nil {
		return fmt.Errorf("send %s by HTTP: %w", m.identity(), err)
	}
	m.known.Store(true)
	h.told.write(chaos.Answer{
		Stream: m.stream, ID: m.identity(), Way: "http", Code: http.StatusAccepted, Replayed: receipt.Replayed, Status: receipt.Status, Group: receipt.Group, Location: receipt.Location,
	})
	return nil
}

// message returns the message for the product's client.
func (m *sent) message(stream string) client.Message {
	return client.Message{Stream: stream, Key: m.id, Group: m.group, Source: m.source, Sequence: m.sequence, ContentType: m.contentType, Headers: m.headers, Body: m.body}
}

// bySQS sends a batch. A token is issued only by HTTP, so a message of such a stream goes there
// first.
func (h *hurlers) bySQS(ctx context.Context, p parcel) error {
	var batch []sent
	for _, m := range p.messages {
		if p.stream != "issued" || m.known.Load() {
			batch = append(batch, m.sent)
			continue
		}
		if err := h.byHTTP(ctx, m); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	if err := untilWhole(func() error { return h.sqs[p.stream].sendBatch(ctx, batch) }); err != nil {
		return fmt.Errorf("send by SQS: %w", err)
	}
	for i := range batch {
		h.told.write(chaos.Answer{Stream: p.stream, ID: batch[i].identity(), Way: "sqs", Code: http.StatusOK})
	}
	return nil
}

// untilWhole retries if a good answer was truncated: the one failure that the SDK does not retry by
// itself.
func untilWhole(send func() error) error {
	for {
		err := send()
		if cut, ok := errors.AsType[*awshttp.ResponseError](err); !ok || cut.HTTPStatusCode() != http.StatusOK {
			return err
		}
	}
}

// reuse sends other content under the identity of a known message.
func (h *hurlers) reuse(ctx context.Context, m *hurled, sqs bool) error {
	if !m.known.Load() {
		return h.byHTTP(ctx, m)
	}
	told := chaos.Answer{Stream: m.stream, ID: m.identity(), Way: "http", Reuse: true, Code: http.StatusAccepted}
	other := m.other()
	if sqs {
		told.Way, told.Code = "sqs", http.StatusOK
		if err := untilWhole(func() error { return h.sqs[m.stream].send(ctx, way{queue: "ingress"}, other) }); err != nil {
			return fmt.Errorf("send other content by SQS: %w", err)
		}
		h.told.write(told)
		return nil
	}
	_, err := h.http.Send(ctx, other.message(m.stream))
	if problem, ok := errors.AsType[*client.Problem](err); ok {
		told.Code, err = problem.Status, nil
	}
	if err != nil {
		return fmt.Errorf("send other content by HTTP: %w", err)
	}
	h.told.write(told)
	return nil
}

// ask requests the status of every message, and writes it down.
func (h *hurlers) ask(ctx context.Context, folder string) error {
	statuses, err := newJournal(folder, "status.jsonl")
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	work := make(chan chaos.Offer, 64)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for o := range work {
				s, err := h.http.StatusAt(ctx, h.url+"/v1/streams/"+o.Stream+"/messages/"+url.PathEscape(o.ID))
				if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
					s.Status, err = "unknown", nil
				}
				if err != nil {
					fail(fmt.Errorf("look %s up: %w", o.ID, err))
				}
				statuses.write(chaos.Status{Stream: o.Stream, ID: o.ID, Status: s.Status})
			}
		})
	}
	err = eachOffer(folder, func(o chaos.Offer) { work <- o })
	close(work)
	wg.Wait()
	return errors.Join(err, context.Cause(ctx), statuses.close())
}

// eachOffer reads the offered messages.
func eachOffer(folder string, do func(chaos.Offer)) error {
	file, err := os.Open(filepath.Join(folder, "offered.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	for d := json.NewDecoder(bufio.NewReader(file)); d.More(); {
		var o chaos.Offer
		if err := d.Decode(&o); err != nil {
			return err
		}
		do(o)
	}
	return nil
}

// newChaosRandom returns a random source of its own for one part, so that its choices do not change
// those of other parts.
func newChaosRandom(random *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(random.Uint64(), 0)) }
