package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrPending says that the previous message is not acknowledged: call [Sequence.Resume] first.
var ErrPending = errors.New("the previous message is not acknowledged")

// Sequence numbers the messages of one source in one group: 1, 2, 3 … without gaps, one at a time.
// It may be used concurrently; the order is then that of the calls.
//
// A number belongs to a message from its first try. If Send ends without an acknowledgement, the
// message keeps its number and the sequence stops: every Send returns [ErrPending] until
// [Sequence.Resume] has sent that message. Do not pass the message to Send again: it would get a
// second number and be processed twice.
//
// If the first try of a message is refused, its number is free again. If a later try is refused, it
// is not, because an earlier try may have been accepted: then only a new epoch can continue. A
// [*Problem] that is [Problem.Ambiguous], such as a proxy's response, is neither an acknowledgement
// nor a refusal: the message keeps its number.
//
// If a source has lost count (its file is gone, a backup was restored), it starts again at 1 under
// a higher epoch.
type Sequence struct {
	client *Client
	start  SequenceOptions
	// turn holds the state while it is not in use. Unlike with a mutex, waiting for it can be
	// cancelled.
	turn chan sequenceState
}

// SequenceOptions name a sequence.
type SequenceOptions struct {
	// Stream and Source are required.
	Stream string
	Source string
	// Group defaults to the source.
	Group string
	// Epoch is the incarnation of the source. Defaults to 0.
	Epoch uint64
	// Next is the number of the first message. Defaults to 1; a program that continues after a
	// restart passes the stored result of [Sequence.Next].
	Next uint64
}

type sequenceState struct {
	next    uint64
	pending *Message
}

// Sequence starts or continues a numbered sender. It does no input or output.
func (c *Client) Sequence(o SequenceOptions) (*Sequence, error) {
	if o.Stream == "" || o.Source == "" {
		return nil, errors.New("start sequence: stream and source must not be empty")
	}
	s := &Sequence{client: c, start: o, turn: make(chan sequenceState, 1)}
	s.turn <- sequenceState{next: max(o.Next, 1)}
	return s, nil
}

// Send assigns the next number to the message and sends it. Stream, Group, Source, Epoch and
// Sequence of m are overwritten.
func (s *Sequence) Send(ctx context.Context, m Message) (Receipt, error) {
	state, err := s.take(ctx)
	if err != nil {
		return Receipt{}, err
	}
	if state.pending != nil {
		s.turn <- state
		return Receipt{}, fmt.Errorf("send message %d of %s: %w", state.next, s.start.Source, ErrPending)
	}
	m.Stream, m.Group, m.Source, m.Epoch, m.Sequence = s.start.Stream, s.start.Group, s.start.Source, s.start.Epoch, state.next
	return s.settle(ctx, state, m)
}

// Resume sends the unacknowledged message again, under its number. ok is false if there is none.
func (s *Sequence) Resume(ctx context.Context) (receipt Receipt, ok bool, err error) {
	state, err := s.take(ctx)
	if err != nil {
		return Receipt{}, false, err
	}
	if state.pending == nil {
		s.turn <- state
		return Receipt{}, false, nil
	}
	receipt, err = s.settle(ctx, state, *state.pending)
	return receipt, true, err
}

// Next returns the number that is not acknowledged yet: of the pending message, or of the next one.
// A program that stores it, together with the pending message, can continue after a restart.
func (s *Sequence) Next(ctx context.Context) (uint64, error) {
	state, err := s.take(ctx)
	if err != nil {
		return 0, err
	}
	s.turn <- state
	return state.next, nil
}

func (s *Sequence) take(ctx context.Context) (sequenceState, error) {
	select {
	case state := <-s.turn:
		return state, nil
	case <-ctx.Done():
		return sequenceState{}, fmt.Errorf("wait for the sequence: %w", context.Cause(ctx))
	}
}

// settle sends the message and releases the state. A refusal frees the number only if no earlier
// try can have been accepted.
func (s *Sequence) settle(ctx context.Context, state sequenceState, m Message) (Receipt, error) {
	resumed := state.pending != nil
	receipt, err := s.client.Send(ctx, m)
	var p *Problem
	var open *UnacknowledgedError
	switch {
	case err == nil:
		state = sequenceState{next: state.next + 1}
	case errors.As(err, &open), errors.As(err, &p) && (p.Ambiguous || resumed):
		// The caller may reuse its own.
		m.Body, m.Headers, m.DependsOn, m.Parents = bytes.Clone(m.Body), maps.Clone(m.Headers), maps.Clone(m.DependsOn), slices.Clone(m.Parents)
		state.pending = &m
	}
	s.turn <- state
	return receipt, err
}
