package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

const (
	batchSize = 10
	groups    = 10
	replySize = "20480"
)

// work is one case on its way.
type work struct {
	engine          *dedup.Engine
	world           *world
	stream, arrival string
	effects, issued bool
	run             string // unique: no message of another run
	n               int    // messages so far
}

// prepare processes what duplicates are duplicates of, and mostly another message of its group, and
// warms up.
func (w *work) prepare(ctx context.Context, warm int) error {
	var first []record.Message
	if w.repeats() {
		first = append(first, w.known())
	}
	if w.arrival == "duplicate" {
		first = append(first, w.message(w.run, 1, 2))
	}
	for _, m := range first {
		if err := w.process(ctx, []record.Message{m}, record.Processed); err != nil {
			return err
		}
	}
	return w.do(ctx, warm)
}

// do processes messages as they arrive in this case.
func (w *work) do(ctx context.Context, messages int) error {
	for range messages / w.size() {
		batch, want := make([]record.Message, w.size()), record.Processed
		for i := range batch {
			batch[i] = w.next()
		}
		if w.repeats() {
			batch[0], want = w.known(), record.Duplicate
		}
		if err := w.process(ctx, batch, want); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) size() int {
	switch w.arrival {
	case "new-groups", "new-named", "ten-groups", "one-group":
		return batchSize
	default:
		return 1
	}
}

// repeats reports whether all messages are duplicates of one.
func (w *work) repeats() bool { return strings.HasPrefix(w.arrival, "duplicate") }

// process processes a batch, and publishes its effects.
func (w *work) process(ctx context.Context, batch []record.Message, want record.Kind) error {
	for i := range batch {
		if !w.issued {
			break
		}
		if _, _, err := w.engine.Issue(ctx, batch[i]); err != nil {
			return err
		}
	}
	for _, o := range w.engine.Process(ctx, batch) {
		if o.Kind != want {
			return fmt.Errorf("outcome %s in place of %s: %s %w", o.Kind, want, o.Detail, o.Err)
		}
	}
	groups := w.world.triggered
	w.world.triggered = nil
	if len(groups) == 0 {
		return nil
	}
	return errors.Join(w.engine.Publish(ctx, groups)...)
}

// next makes the next new message.
func (w *work) next() record.Message {
	n := w.n
	w.n++
	group, sequence := w.run, n+1 // one-group
	switch w.arrival {
	case "alone", "named", "new-groups", "new-named":
		group, sequence = fmt.Sprint(w.run, n), 1
	case "again", "ten-groups":
		group, sequence = fmt.Sprint(w.run, n%groups), n/groups+1
	}
	return w.message(group, n, sequence)
}

// known is the message that duplicates are duplicates of.
func (w *work) known() record.Message {
	m := w.message(w.run, 0, 1)
	m.Headers = map[string]string{"reply": replySize}
	return m
}

func (w *work) message(group string, n, sequence int) record.Message {
	m := record.Message{Stream: w.stream, Group: group, Body: []byte(strconv.Itoa(n))}
	if w.effects {
		m.Headers = map[string]string{"effect": "yes"}
	}
	if w.stream == "sequence" {
		m.Source, m.Sequence = "sender", uint64(sequence) //nolint:gosec // counts from 1
		return m
	}
	m.ID = fmt.Sprint(w.run, "-", n)
	if w.arrival == "alone" || w.arrival == "new-groups" { // each message is a group of its own
		m.Group = ""
	}
	return m
}
