package once

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A Handler processes one message on the state of its group, by changing the attempt. It may run
// more than once for a message, but only one run is committed.
//
// If it returns nil, the message is processed. If it returns an error made by [Reject], the message
// is refused for good. After any other error, and after a panic, the message is retried, and
// nothing of the attempt becomes visible. The context ends after [StreamConfig.Timeout], and on AWS
// before the function's time is over; the handler should then return.
type Handler[S any] func(ctx context.Context, a *Attempt[S], m Message) error

// Stateless is the state of a handler without state. If its stream declares its destinations, such
// a handler costs less: with [OrderNone], or for messages without a group, its messages need no
// group record.
type Stateless = struct{}

// An Attempt is one run of a handler. Nothing that it collects is visible before the commit. It
// must not be used after the handler has returned.
type Attempt[S any] struct {
	// State is the state of the message's group after the last commit, or the zero value if there
	// was none. It is stored as JSON. Fields that S does not have, as those of a newer version of
	// the program, are kept in structs at the same path. In elements of arrays they can't be kept.
	// With such a field, or with another type, the attempt fails: a stored state is never replaced
	// by a zero value (see [StreamConfig.Upgrade]). The state is kept until the handler deletes it by
	// setting the zero value, as in a.State = S{}, or for [StreamConfig.StateRetention]. Unknown
	// fields survive a zero value, and keep the state. A map that was emptied is not zero: set it to
	// nil.
	State S

	inner   *record.Attempt
	allowed []string
	err     error
}

// Send adds an effect: a message to a destination, in the group of the handled message. It is
// published after the commit, under the identity stream/group/number. If the stream declares its
// destinations and this is not one of them, the attempt fails.
func (a *Attempt[S]) Send(destination string, body Body) { a.SendTo(destination, "", body) }

// SendTo is [Attempt.Send] to another group at the destination.
func (a *Attempt[S]) SendTo(destination, group string, body Body) {
	if err := a.sendable(destination, body); err != nil {
		a.fail(fmt.Errorf("send to %q: %w", destination, err))
		return
	}
	a.inner.Send(record.Effect{
		To: []string{destination}, Group: group,
		ContentType: body.contentType, Headers: body.headers, Body: body.data, DependsOn: body.dependsOn,
	})
}

// SendAfter is [Attempt.Send] after a delay, which counts from the run of the handler: the effect
// is published at that time under the same identity, even if the system is restarted in between.
// Later effects are published before it, and it takes no number of a destination that numbers its
// messages. 0 is now; the attempt fails if the delay is negative or longer than a year, or if the
// destination is a stream ordered by numbers.
func (a *Attempt[S]) SendAfter(destination string, after time.Duration, body Body) {
	err := a.sendable(destination, body)
	if err == nil && after > 0 && len(body.dependsOn) > 0 {
		err = errors.New("a delayed message can't depend on others")
	}
	if err == nil {
		err = a.inner.SendAfter(record.Effect{
			To: []string{destination}, ContentType: body.contentType, Headers: body.headers, Body: body.data, DependsOn: body.dependsOn,
		}, after)
	}
	if err != nil {
		a.fail(fmt.Errorf("send to %q after %s: %w", destination, after, err))
	}
}

// SetTimer sets a timer of the group: after the delay, its handler gets a message with this body
// and with the name in [Message.Timer]. It replaces the timer of that name, if the group has one.
// The message is processed once, and not if a commit has cancelled or replaced the timer before.
//
// The delay counts from the run of the handler, and is at most a year. A group has at most 1,000
// timers. If that is exceeded, or if the name is empty or longer than 256 bytes, the attempt fails.
// It also fails if the handler is [Stateless] and its stream declares its destinations: then its
// groups have no record that could hold a timer. The end of the group's log cancels its timers.
func (a *Attempt[S]) SetTimer(name string, after time.Duration, body Body) {
	err := body.check(MaxBody)
	if err == nil {
		err = a.inner.SetTimer(name, after, record.Effect{ContentType: body.contentType, Headers: body.headers, Body: body.data})
	}
	if err != nil {
		a.fail(fmt.Errorf("set timer %q: %w", name, err))
	}
}

// Cancel cancels the timer of that name, if the group has one. As soon as the attempt is committed,
// its message is no longer processed, even if it was delivered already. The attempt fails if the
// name is invalid or the handler can't have timers, see [Attempt.SetTimer].
func (a *Attempt[S]) Cancel(name string) {
	if err := a.inner.CancelTimer(name); err != nil {
		a.fail(fmt.Errorf("cancel timer %q: %w", name, err))
	}
}

func (a *Attempt[S]) sendable(destination string, body Body) error {
	if destination == "" || len(a.allowed) > 0 && !slices.Contains(a.allowed, destination) {
		return errors.New("not a destination of this stream")
	}
	return body.check(MaxBody)
}

// Append adds an entry to the log of the message's group. It becomes readable with the commit, and
// only then, after the entries of earlier commits. If the stream has no logs, or if a message
// appends more than 1 MiB, the attempt fails.
func (a *Attempt[S]) Append(body Body) {
	if err := body.check(record.SmallBody); err != nil {
		a.fail(fmt.Errorf("append to log: %w", err))
		return
	}
	a.inner.Append(record.Entry{ContentType: body.contentType, Headers: body.headers, Body: body.data})
}

// Reply sets the answer to a caller that waits for the message, and to every duplicate until the
// message is forgotten. The status is an HTTP status, 200 to 599. If an attempt replies several
// times, the last reply counts.
func (a *Attempt[S]) Reply(status int, body Body) {
	err := body.check(record.MaxReply)
	if status < 200 || status > 599 {
		err = errors.New("status must be from 200 to 599")
	}
	if err != nil {
		a.fail(fmt.Errorf("reply %d: %w", status, err))
		return
	}
	a.inner.Reply(record.Reply{Status: status, Header: body.header(), Body: body.data})
}

func (b Body) header() http.Header {
	h := http.Header{}
	for name, value := range b.headers {
		h.Set(name, value)
	}
	if b.contentType != "" {
		h.Set("Content-Type", b.contentType)
	}
	return h
}

// Blob adds an effect: an object that appears, complete, under its key after the commit. It is
// staged before the commit, and deleted if another attempt wins.
func (a *Attempt[S]) Blob(key string, data []byte) {
	if key == "" {
		a.fail(errors.New("blob key must not be empty"))
		return
	}
	a.inner.Blob(key, bytes.Clone(data))
}

// fail keeps the first error, so that handlers need not check each effect.
func (a *Attempt[S]) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// adapt returns the engine's handler for a typed one.
func adapt[S any](h Handler[S], c StreamConfig) record.Handler {
	allowed := slices.Clone(c.Destinations)
	return func(ctx context.Context, inner *record.Attempt, m record.Message) error {
		state, unknown, err := decodeState[S](inner.State, c.Upgrade)
		if err != nil {
			return fmt.Errorf("decode state of group %s: %w", m.GroupKey(), err)
		}
		a := &Attempt[S]{State: state, inner: inner, allowed: allowed}
		if err := h(ctx, a, public(&m)); err != nil {
			return err
		}
		if a.err != nil {
			return a.err
		}
		if inner.State, err = encodeState(a.State, unknown); err != nil {
			return fmt.Errorf("encode state of group %s: %w", m.GroupKey(), err)
		}
		return nil
	}
}

// Reject says that a message can't be processed: it goes to the dead-letter queue with the detail,
// and every caller receives a 400 with it, also one that repeats the message. To say no to one that
// was understood, reply: a.Reply(409, …). The detail is for people and must not contain
// secrets; err may be nil.
func Reject(detail string, err error) error { return &record.RejectError{Detail: detail, Err: err} }
