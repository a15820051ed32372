package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/client"
)

// options say what to do. All are required.
type options struct {
	messages, consumers, faults int
	consumer                    []string // the program of the consumers
	source                      string   // the database of the rows
	self                        string   // this program, for the server
	dir                         string   // for the data of the server
	progress                    io.Writer
}

// A run is a server, its consumers, and the faults so far.
type run struct {
	options
	server  *server
	db      *sql.DB
	client  *client.Client
	readers []*reader
	fail    context.CancelCauseFunc

	struck atomic.Int64 // faults so far
	mu     sync.Mutex
	result result
}

// play sends the messages, injects the faults, ends the stream, and counts the rows.
func play(ctx context.Context, o options) (result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &run{options: o, fail: fail, result: result{messages: o.messages, took: map[fault][]time.Duration{}}}
	if err := r.open(ctx); err != nil {
		return result{}, err
	}
	defer r.close()
	began := time.Now()
	go r.report(ctx, began)
	if err := r.work(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return result{}, err
	}
	r.result.took[whole] = []time.Duration{time.Since(began)}
	var err error
	r.result.rows, r.result.ids, err = count(ctx, r.db)
	return r.result, err
}

func (r *run) open(ctx context.Context) (err error) {
	if r.db, err = openDatabase(r.source); err != nil {
		return err
	}
	if err := prepare(ctx, r.db, r.source); err != nil {
		return err
	}
	r.server = &server{self: r.self, dir: filepath.Join(r.dir, "data")}
	if err := r.server.start(ctx); err != nil {
		return err
	}
	r.client, err = newClient(r.server.url(), nil)
	for i := range r.consumers {
		r.readers = append(r.readers, &reader{run: r, name: "session-" + strconv.Itoa(i)})
	}
	return err
}

func (r *run) close() {
	r.fail(errors.New("the run is over"))
	for _, reader := range r.readers {
		if reader.process != nil {
			reader.process.kill()
		}
	}
	if r.server.process != nil {
		r.server.process.kill()
	}
	_ = r.db.Close()
}

// work starts the consumers, sends, injects, and ends.
func (r *run) work(ctx context.Context) error {
	for _, reader := range r.readers {
		if err := reader.start(ctx); err != nil {
			return err
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- r.send(ctx) }()
	if err := r.inject(ctx); err != nil {
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	if err := r.client.End(ctx, stream, "the-end"); err != nil {
		return err
	}
	for _, reader := range r.readers {
		if reader.retired {
			continue
		}
		if _, err := reader.process.await(ctx, is(eventEnd)); err != nil {
			return fmt.Errorf("%s does not see its end: %w", reader.name, err)
		}
	}
	return nil
}

// send sends all messages. It keeps some back until the faults have happened.
func (r *run) send(ctx context.Context) error {
	const size = 1000
	for from := 0; from < r.messages; from += size {
		if err := r.allowed(ctx, from); err != nil {
			return err
		}
		if err := r.sendSome(ctx, from, min(from+size, r.messages)); err != nil {
			return fmt.Errorf("send messages: %w", err)
		}
	}
	return nil
}

// lead is how many faults the sender is ahead of.
const lead = 5

// allowed waits until a message may be sent: the messages are spread over the faults.
func (r *run) allowed(ctx context.Context, number int) error {
	for number*(r.faults+2) > r.messages*(int(r.struck.Load())+lead) {
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) sendSome(ctx context.Context, from, to int) error {
	batch := make([]client.Message, 0, to-from)
	for i := from; i < to; i++ {
		id := fmt.Sprintf("message-%08d", i)
		batch = append(batch, client.Message{Stream: stream, Key: id, ContentType: "application/json", Body: []byte(`{"number":` + strconv.Itoa(i) + `}`)})
	}
	for _, result := range r.client.SendBatch(ctx, batch) {
		if result.Err != nil {
			return result.Err
		}
	}
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(5 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
