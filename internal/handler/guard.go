package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A FailedError is an error that a handler reported in its own words: the handler runs, and this
// call has failed.
type FailedError struct {
	Text  string
	state error
}

func (e *FailedError) Error() string { return "the handler failed: " + e.Text }

// Unwrap returns [record.ErrUnreadable] if the group had a state and the text begins with
// "state-unreadable:", after the "StateError: " of the packages; otherwise nil. Elsewhere in the
// text it may be of a message.
func (e *FailedError) Unwrap() error { return e.state }

// Failed returns a [*FailedError] with the beginning of a text, without control characters.
func Failed(text string) error {
	return &FailedError{Text: cmp.Or(record.RejectText(strings.TrimSpace(text)), "it gave no reason")}
}

// Options configure a [Handler]. Zero fields take the defaults in their comments.
type Options struct {
	// Stream is the name of the stream. Required.
	Stream string
	// Destinations are those that effects may go to.
	Destinations []string
	// Timeout of one call. Defaults to 10 seconds.
	Timeout time.Duration
	// Concurrency is how many calls may be made at a time. Defaults to 64.
	Concurrency int
	// MaxPause is about the longest pause between two tries while the handler is down. Defaults to
	// 30 seconds.
	MaxPause time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

// A Handler handles the messages of a stream by calls. It bounds the calls in time and number, and
// makes none while the handler is down.
type Handler struct {
	caller  Caller
	options Options
	bounds  *Bounds
	breaker *breaker
}

// New returns the handler behind a caller.
func New(caller Caller, o Options) *Handler {
	o.Timeout = cmp.Or(o.Timeout, record.DefaultTimeout)
	o.Concurrency = cmp.Or(o.Concurrency, record.DefaultConcurrency)
	o.MaxPause = cmp.Or(o.MaxPause, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	log := o.Log.With("stream", o.Stream)
	return &Handler{caller: caller, options: o, bounds: NewBounds(&record.Stream{Concurrency: o.Concurrency}, nil, o.Now), breaker: &breaker{now: o.Now, log: log, longest: o.MaxPause}}
}

// Close closes the caller, and ends its program if it has one. No call may be made any more.
func (h *Handler) Close() error {
	if c, ok := h.caller.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Handle is a [record.BatchHandler]. If the handler is down and was not called, the error wraps a
// [*record.LaterError] and [record.ErrUntried].
func (h *Handler) Handle(ctx context.Context, b *record.Batch) error {
	request, ids, err := h.request(b)
	if err != nil {
		return err
	}
	answer, err := h.call(ctx, b.ID, request, ids)
	if failed, ok := errors.AsType[*FailedError](err); ok && len(b.State) > 0 && strings.HasPrefix(strings.TrimPrefix(failed.Text, "StateError: "), string(record.ReasonUnreadable)+":") {
		failed.state = record.ErrUnreadable
	}
	if err != nil {
		return err
	}
	return h.take(b, answer)
}

// request encodes the request for a batch.
func (h *Handler) request(b *record.Batch) (text []byte, ids []string, err error) {
	r := Request{Stream: b.Group.Stream, Group: b.Group.Group, Version: b.Version, Attempt: b.ID, State: b.State, Messages: make([]Message, len(b.Messages))}
	for i := range b.Messages {
		if r.Messages[i], err = NewMessage(&b.Messages[i]); err != nil {
			return nil, nil, err
		}
	}
	return r.Encode()
}

// call makes one call, if the handler is not down, and reads the answer.
func (h *Handler) call(ctx context.Context, attempt string, request []byte, ids []string) (*Answer, error) {
	if err := h.breaker.rejects(); err != nil { // before the wait: calls that hang may hold all slots
		return nil, err
	}
	if err := h.bounds.enter(ctx); err != nil {
		return nil, err
	}
	defer h.bounds.leave()
	probe, err := h.breaker.admit()
	if err != nil {
		return nil, err
	}
	v := unknown
	defer func() { h.breaker.done(probe, v, err) }() // after a panic, too
	bounded, cancel := context.WithTimeoutCause(ctx, h.options.Timeout, fmt.Errorf("no answer within %v", h.options.Timeout))
	defer cancel()
	began := h.options.Now()
	data, err := h.caller.Call(bounded, attempt, request)
	if err != nil {
		if v = judge(ctx, h.options.Now().Sub(began), err); v == down && bounded.Err() != nil {
			err = context.Cause(bounded)
		}
		return nil, err
	}
	answer, err := DecodeAnswer(data, attempt, ids)
	if v = alive; err != nil {
		if !json.Valid(data) { // another server may have answered
			v = down
		}
		err = fmt.Errorf("answer of the handler: %w", err)
	}
	return answer, err
}

// hangs is the time after which a call counts as one without an answer, even if the caller's
// deadline ended it before the timeout of the handler.
const hangs = 20 * time.Second

// judge returns the state of the handler after a failed call, which took so long.
func judge(ctx context.Context, took time.Duration, err error) verdict {
	switch {
	case errors.As(err, new(*FailedError)):
		return alive
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && took >= hangs:
		return down
	case ctx.Err() != nil:
		return unknown
	}
	return down
}

// take adds an answer to a batch. If it returns an error, the batch must not be used.
func (h *Handler) take(b *record.Batch, answer *Answer) error {
	if answer.SetState {
		b.State = answer.State
	}
	for i := range answer.Results {
		r := &answer.Results[i]
		if r.Rejected {
			b.Reject(r.Reject)
			continue
		}
		if err := h.accept(b.Accept(), &b.Messages[i], r, "messages["+strconv.Itoa(i)+"]"); err != nil {
			return fmt.Errorf("answer of the handler: %w", err)
		}
	}
	return nil
}

// accept adds the result of one message to its attempt.
func (h *Handler) accept(a *record.Attempt, m *record.Message, r *Result, path string) error {
	for i := range r.Effects {
		r.Effects[i].Headers = traced(&r.Effects[i].Content, m.Headers)
		if err := h.effect(a, &r.Effects[i], path+".effects["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	for _, e := range r.Append {
		a.Append(record.Entry{ContentType: e.ContentType, Headers: e.Headers, Body: e.Body})
	}
	if r.Reply != nil {
		a.Reply(*r.Reply)
	}
	return nil
}

// traced returns the headers of an effect, with the trace of its message (W3C Trace Context) unless
// they have one or would be too large with it.
func traced(effect *Content, message map[string]string) map[string]string {
	const parent, state = "traceparent", "tracestate"
	if message[parent] == "" {
		return effect.Headers
	}
	out := map[string]string{parent: message[parent]}
	if message[state] != "" {
		out[state] = message[state]
	}
	for name, value := range effect.Headers {
		if strings.EqualFold(name, parent) || strings.EqualFold(name, state) {
			return effect.Headers
		}
		out[name] = value
	}
	m := record.Message{ContentType: effect.ContentType, Headers: out}
	if m.WrongHeaders() != nil {
		return effect.Headers
	}
	return out
}

// effect adds one effect to an attempt.
func (h *Handler) effect(a *record.Attempt, e *Effect, path string) error {
	var err error
	content := record.Effect{ContentType: e.ContentType, Headers: e.Headers, Body: e.Body}
	switch {
	case e.Timer != "":
		err = a.SetTimer(e.Timer, e.After, content)
	case e.Cancel != "":
		err = a.CancelTimer(e.Cancel)
	case !slices.Contains(h.options.Destinations, e.To):
		return wrong(path+".to", "is %.100q, which is no destination of the stream; %s", e.To, known(h.options.Destinations))
	default:
		content.To, content.Group = []string{e.To}, e.Group
		err = a.SendAfter(content, e.After)
	}
	if err != nil {
		return wrong(path, "is not valid: %v", err)
	}
	return nil
}

func known(names []string) string {
	if len(names) == 0 {
		return "it has none: list them under destinations of the stream, in once.yaml"
	}
	return "it has " + strings.Join(names, ", ")
}
