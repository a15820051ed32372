package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// callers call concurrently with one message each; batchCallers with a batch each.
const (
	callers      = 256
	batchCallers = 16
)

// noQueues drops triggers: the benchmark has nothing to publish.
type noQueues struct{}

func (noQueues) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (noQueues) Return(context.Context, []record.Message) error                  { return nil }
func (noQueues) DeadLetter(context.Context, []record.Refused) error              { return nil }
func (noQueues) Delay(context.Context, []record.Delayed) error                   { return nil }

// touch is a handler with a state of a hundred bytes and no effects.
func touch(_ context.Context, a *record.Attempt, _ record.Message) error {
	state := make([]byte, 100)
	copy(state, a.State)
	binary.BigEndian.PutUint64(state, binary.BigEndian.Uint64(state)+1)
	a.State = state
	return nil
}

// newEngine returns the engine on Pebble with the filter of keys that the embedded system has. stop
// ends the filter, before the database is closed.
func newEngine(ctx context.Context, db *pebble.DB) (e *dedup.Engine, stop func() error, err error) {
	filter := presence.New(db, pebbledb.Tokens, pebbledb.Groups)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- filter.Run(ctx) }()
	stop = func() error { cancel(); return <-ended }
	e, err = dedup.New(dedup.Config{
		Store: pebblestore.New(db, pebblestore.Options{Presence: filter}), Queues: noQueues{},
		Streams: []record.Stream{
			{Name: "key", Handler: touch},
			{Name: "sequence", Admission: record.BySequence, Handler: touch},
			{Name: "key-logged", Handler: touch, LogRetention: time.Hour, LogMessages: true},
			{Name: "sequence-logged", Admission: record.BySequence, Handler: touch, LogRetention: time.Hour, LogMessages: true},
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return e, stop, nil
}

// openEngine returns a function that opens the engine on Pebble, with callers that process what
// batch makes.
func openEngine(callers, size int, batch batches) func(context.Context, string) (*worker, error) {
	return func(ctx context.Context, dir string) (*worker, error) {
		db, err := pebbledb.Open(dir, nil)
		if err != nil {
			return nil, err
		}
		e, stop, err := newEngine(ctx, db)
		if err != nil {
			return nil, err
		}
		run := func(ctx context.Context, d time.Duration) (load, error) {
			round := strconv.FormatInt(time.Now().UnixNano(), 36)
			return hammer(ctx, callers, d, func(ctx context.Context, caller int, i uint64) (int, error) {
				messages := make([]record.Message, size)
				batch(messages, round+"-"+strconv.Itoa(caller), i)
				return size, process(ctx, e, messages)
			})
		}
		return &worker{run: run, close: func() error { return errors.Join(stop(), db.Close()) }}, nil
	}
}

// batches fill the i-th batch of a caller, counted from 1. No two callers have one name.
type batches func(messages []record.Message, caller string, i uint64)

// keyed is a batch in which each message is the first of its group.
func keyed(messages []record.Message, caller string, i uint64) {
	body, id := []byte(`{"a":1}`), caller+"-"+strconv.FormatUint(i, 10)
	for n := range messages {
		own := id + "-" + strconv.Itoa(n)
		messages[n] = record.Message{Stream: "key", ID: own, Group: own, Body: body}
	}
}

// fresh is a batch in which each message is the first of a numbered sender of its own.
func fresh(messages []record.Message, caller string, i uint64) {
	body, source := []byte(`{"a":1}`), caller+"-"+strconv.FormatUint(i, 10)
	for n := range messages {
		messages[n] = record.Message{Stream: "sequence", Source: source + "-" + strconv.Itoa(n), Sequence: 1, Body: body}
	}
}

// numbered is the next batch of one numbered sender.
func numbered(messages []record.Message, caller string, i uint64) {
	body, first := []byte(`{"a":1}`), (i-1)*uint64(len(messages))+1
	for n := range messages {
		messages[n] = record.Message{Stream: "sequence", Source: caller, Sequence: first + uint64(n), Body: body}
	}
}

// hundred returns the batches of a stream, for which each caller is a group. The bodies have 100
// bytes.
func hundred(stream string) batches {
	body := []byte(`{"text":"` + strings.Repeat("x", 89) + `"}`)
	return func(messages []record.Message, caller string, i uint64) {
		first := (i-1)*uint64(len(messages)) + 1
		for n := range messages {
			m := record.Message{Stream: stream, ContentType: "application/json", Body: body}
			if number := first + uint64(n); strings.HasPrefix(stream, "sequence") {
				m.Source, m.Sequence = caller, number
			} else {
				m.Group, m.ID = caller, caller+"-"+strconv.FormatUint(number, 10)
			}
			messages[n] = m
		}
	}
}

// shuffled returns the numbers of batches in another order within each window. The windows of all
// callers have the same order, drawn once.
func shuffled(batch batches, window uint64) batches {
	order := make([]uint64, window)
	for i := range order {
		order[i] = uint64(i) + 1
	}
	// the same in each run
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] }) //nolint:gosec // no secret
	return func(messages []record.Message, caller string, i uint64) {
		batch(messages, caller, i)
		for n := range messages {
			at := messages[n].Sequence - 1
			messages[n].Sequence = at - at%window + order[at%window]
		}
	}
}

func process(ctx context.Context, e *dedup.Engine, messages []record.Message) error {
	for _, o := range e.Process(ctx, messages) {
		if o.Kind != record.Processed && o.Kind != record.HeldBack {
			return fmt.Errorf("outcome %s: %s %w", o.Kind, o.Detail, o.Err)
		}
	}
	return ctx.Err()
}

// hammer calls do from many goroutines for a time. do gets the number of the call, from 1, and
// returns how many messages it processed.
func hammer(ctx context.Context, callers int, d time.Duration, do func(ctx context.Context, caller int, i uint64) (int, error)) (load, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := uint64(1); (i == 1 || time.Since(start) < d) && failed.Load() == nil; i++ {
				count, err := do(ctx, caller, i)
				if err != nil {
					failed.Store(&err)
				}
				done.Add(int64(count))
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return load{}, *err
	}
	return load{messages: int(done.Load())}, ctx.Err()
}
