package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	durableProducers = 4
	durableReaders   = 2
	durableLives     = 4 // creations of the same stream, with a DELETE after each
)

// An appended is one value of the stream: the n-th one of a producer since the stream was created.
type appended struct {
	Life, Producer, N int
}

// durableStream calls a server by the Durable Streams protocol, and repeats requests until the
// server answers.
type durableStream struct {
	url    string
	killer *killer
}

// A durableAnswer is an answer of the server.
type durableAnswer struct {
	status  int
	header  http.Header
	content []byte
}

// call repeats a request until it has an answer that is none of a server that starts or ends. It
// also returns how many tries had no such answer: some of these may have taken effect.
func (d *durableStream) call(ctx context.Context, method, query string, header map[string]string, body []byte) (*durableAnswer, int, error) {
	for tries := 0; ; tries++ {
		answer, err := d.try(ctx, method, query, header, body)
		if err == nil && answer.status < 500 {
			return answer, tries, nil
		}
		if ended := sleep(ctx, 10*time.Millisecond); ended != nil {
			return nil, tries, errors.Join(ended, err)
		}
	}
}

func (d *durableStream) try(ctx context.Context, method, query string, header map[string]string, body []byte) (*durableAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, d.url+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := connections.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return &durableAnswer{answer.StatusCode, answer.Header, content}, err
}

// expect is call with the statuses that are right. Those after the first one are right only if an
// earlier try may have taken effect.
func (d *durableStream) expect(ctx context.Context, method, query string, header map[string]string, body []byte, statuses ...int) (*durableAnswer, error) {
	answer, tries, err := d.call(ctx, method, query, header, body)
	if err != nil {
		return nil, err
	}
	if tries == 0 {
		statuses = statuses[:1]
	}
	if !slices.Contains(statuses, answer.status) {
		return nil, fmt.Errorf("%s %s %v answers %d after %d other tries, not %v: %s", method, query, header, answer.status, tries, statuses, answer.content)
	}
	return answer, nil
}

// produce appends values, some of them two at a time. Halfway the producer begins its next epoch.
func (d *durableStream) produce(ctx context.Context, life, producer, values int, random *rand.Rand) error {
	epoch, seq := 0, 0
	for n := 0; n < values; seq++ {
		if epoch == 0 && n >= values/2 {
			epoch, seq = 1, 0
		}
		list := []appended{{life, producer, n}}
		if random.IntN(3) == 0 && n+1 < values {
			list = append(list, appended{life, producer, n + 1})
		}
		body, err := json.Marshal(list)
		if err != nil {
			return err
		}
		_, err = d.expect(ctx, http.MethodPost, "", map[string]string{
			"Content-Type": "application/json", "Producer-Id": fmt.Sprint("producer-", producer),
			"Producer-Epoch": strconv.Itoa(epoch), "Producer-Seq": strconv.Itoa(seq),
		}, body, http.StatusOK, http.StatusNoContent)
		if err != nil {
			return err
		}
		n += len(list)
		for range list {
			d.killer.acknowledged()
		}
	}
	return nil
}

// read follows the stream from its beginning until it has this many values, and returns them and the
// offset after them.
func (d *durableStream) read(ctx context.Context, values int) ([]appended, string, error) {
	var all []appended
	offset := "-1"
	for len(all) < values {
		answer, _, err := d.call(ctx, http.MethodGet, "?live=long-poll&offset="+offset, nil, nil)
		if err != nil {
			return nil, "", err
		}
		if answer.status != http.StatusOK && answer.status != http.StatusNoContent {
			return nil, "", fmt.Errorf("a read after %s answers %d: %s", offset, answer.status, answer.content)
		}
		if offset = answer.header.Get("Stream-Next-Offset"); answer.status == http.StatusNoContent {
			continue
		}
		var more []appended
		if err := json.Unmarshal(answer.content, &more); err != nil {
			return nil, "", fmt.Errorf("%q: %w", answer.content, err)
		}
		all = append(all, more...)
	}
	return all, offset, nil
}

// live creates the stream, appends to it and reads it at once, and returns the values of each reader
// and the last offset. old is the last offset of the stream before it.
func (d *durableStream) live(ctx context.Context, old string, life, each int, random *rand.Rand) (read [][]appended, end string, err error) {
	created, err := d.expect(ctx, http.MethodPut, "", map[string]string{"Content-Type": "application/json"}, nil, http.StatusCreated, http.StatusOK)
	if err != nil {
		return nil, "", err
	}
	if old != "" {
		if err := d.refused(ctx, old); err != nil {
			return nil, "", err
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	read, ends := make([][]appended, durableReaders), make([]string, durableReaders)
	var wg sync.WaitGroup
	for i := range read {
		wg.Go(func() {
			var failed error
			if read[i], ends[i], failed = d.read(ctx, durableProducers*each); failed != nil {
				fail(failed)
			}
		})
	}
	for p := range durableProducers {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		wg.Go(func() {
			if failed := d.produce(ctx, life, p, each, own); failed != nil {
				fail(failed)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, "", err
	}
	again, err := d.expect(ctx, http.MethodHead, "", nil, nil, http.StatusOK)
	if err != nil {
		return nil, "", err
	}
	last := again.header.Get("Stream-Next-Offset")
	for _, e := range ends {
		if e != last || e == created.header.Get("Stream-Next-Offset") {
			return nil, "", fmt.Errorf("readers of a stream that ends at %s are at %v", last, ends)
		}
	}
	return read, last, nil
}

// refused checks that a new stream takes neither an offset nor a number of the one before it.
func (d *durableStream) refused(ctx context.Context, old string) error {
	for _, query := range []string{"?offset=" + old, "?live=long-poll&offset=" + old, "?live=sse&offset=" + old} {
		if _, err := d.expect(ctx, http.MethodGet, query, nil, nil, http.StatusGone); err != nil {
			return err
		}
	}
	answer, err := d.expect(ctx, http.MethodPost, "", map[string]string{
		"Content-Type": "application/json", "Producer-Id": "producer-0", "Producer-Epoch": "1", "Producer-Seq": "1",
	}, []byte(`{"Life": -1}`), http.StatusConflict)
	if err == nil && answer.header.Get("Producer-Expected-Seq") != "0" {
		err = fmt.Errorf("the new stream expects the number %s", answer.header.Get("Producer-Expected-Seq"))
	}
	return err
}

// judgeLife checks that all readers have read the same values: each one of each producer once, in
// order.
func judgeLife(t *testing.T, read [][]appended, life, each int) {
	t.Helper()
	next := make([]int, durableProducers)
	for _, v := range read[0] {
		if v.Life != life || v.N != next[v.Producer] {
			t.Fatalf("life %d: %+v is read, and the next one of the producer is %d", life, v, next[v.Producer])
		}
		next[v.Producer]++
	}
	for p, n := range next {
		if n != each {
			t.Errorf("life %d: %d values of producer %d, not %d", life, n, p, each)
		}
	}
	for i := range read {
		if !slices.Equal(read[i], read[0]) {
			t.Errorf("life %d: reader %d has read another order than reader 0", life, i)
		}
	}
}

// Clients repeat each request until it is answered. A kill is due at each DELETE too.
func TestAppendsOfDurableStreamsAreThereOnceAndInOrderWhileTheServerIsKilled(t *testing.T) {
	random := newRandom(t)
	s := newServer(t, onceBinary, "streams: {pages: {log: {retain: 1h}}}\n")
	must(t, s.start())
	each := max(20, *messages/200)
	ctx, k := newKiller(t, s, random, max(3, *kills/2), durableLives*durableProducers*each)
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	d := &durableStream{url: s.url() + "/v1/stream/pages/some/page", killer: k}
	old := ""
	for life := range durableLives {
		read, end, err := d.live(ctx, old, life, each, random)
		must(t, err)
		judgeLife(t, read, life, each)
		old = end
		k.due <- struct{}{}
		_, err = d.expect(ctx, http.MethodDelete, "", nil, nil, http.StatusNoContent, http.StatusNotFound)
		must(t, err)
		_, err = d.expect(ctx, http.MethodGet, "?offset="+old, nil, nil, http.StatusNotFound)
		must(t, err)
	}
	k.finish(t)
	must(t, s.stop())
}
