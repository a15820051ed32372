package record

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Handler processes one message. It changes the attempt: its state, effects, reply and blobs. If
// it returns a [*RejectError], the message is refused for good. After any other error, and after a
// panic, the message is retried. Nothing of a failed attempt becomes visible.
type Handler func(ctx context.Context, a *Attempt, m Message) error

// Run calls the handler and returns a panic as a [*HandlerError].
func (h Handler) Run(ctx context.Context, a *Attempt, m Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()}
		}
	}()
	return h(ctx, a, m)
}

// An Attempt is one run of a handler for a message. Nothing that it collects is visible before the
// commit.
type Attempt struct {
	// ID is unique to this attempt.
	ID string
	// Group is the message's group; it is part of the names of staged blobs.
	Group GroupKey
	// State is the group's state; the handler may replace it.
	State []byte
	// Log is the end of the group's log before the attempt.
	Log Log
	// Now is when the attempt began: delayed effects and timers count from it.
	Now time.Time
	// NoTimers is the error of setting and cancelling timers, see [Stream.NoTimers].
	NoTimers error

	effects []Effect
	entries []Entry
	blobs   []stagedBlob
	reply   *Reply
	omitted bool
	timers  []TimerChange
}

type stagedBlob struct {
	key  string
	body []byte
}

// RequestAttempt is the suffix of the ID of an attempt at a one-time request. Such a token is
// marked done by a conditional write, because a DELETE may have changed it first.
const RequestAttempt = ".request"

// Send adds an effect: a message to destinations.
func (a *Attempt) Send(e Effect) { a.effects = append(a.effects, e) }

// SendAfter adds an effect that is sent after a delay; 0 is now. It returns an error if the delay
// is negative or longer than [MaxDelay].
func (a *Attempt) SendAfter(e Effect, after time.Duration) error {
	if err := ValidDelay(after); err != nil {
		return err
	}
	if after > 0 {
		e.NotBefore = due(a.Now, after)
	}
	a.Send(e)
	return nil
}

// SetTimer sets a timer of the group: after the delay, the group gets a message with the content of
// e: its ContentType, Headers and Body. A timer of the same name is replaced. It returns an error
// if the name or the delay is not valid, or if the stream has no timers.
func (a *Attempt) SetTimer(name string, after time.Duration, e Effect) error {
	if err := cmp.Or(ValidTimer(name), ValidDelay(after)); err != nil {
		return err
	}
	e.To, e.Group, e.Timer, e.NotBefore = []string{ToTimer}, "", name, due(a.Now, after)
	return a.changeTimer(TimerChange{name, &e})
}

// CancelTimer cancels the timer of that name, if the group has one. It returns an error if the name
// is not valid, or if the stream has no timers.
func (a *Attempt) CancelTimer(name string) error {
	if err := ValidTimer(name); err != nil {
		return err
	}
	return a.changeTimer(TimerChange{Name: name})
}

// changeTimer replaces an earlier change of the same timer.
func (a *Attempt) changeTimer(c TimerChange) error {
	if a.NoTimers != nil {
		return a.NoTimers
	}
	a.timers = slices.DeleteFunc(a.timers, func(old TimerChange) bool { return old.Name == c.Name })
	a.timers = append(a.timers, c)
	return nil
}

// Timers returns the changes of timers, at most one for each name.
func (a *Attempt) Timers() []TimerChange { return a.timers }

// Append adds an entry to the log of the group. Only its content counts: ContentType, Headers and
// Body.
func (a *Attempt) Append(e Entry) { a.entries = append(a.entries, e) }

// OmitMessage keeps the message itself out of the log of its group. The entries of Append are
// there.
func (a *Attempt) OmitMessage() { a.omitted = true }

// Omitted reports whether OmitMessage was called.
func (a *Attempt) Omitted() bool { return a.omitted }

// Entries returns the entries that the handler appended, in its order.
func (a *Attempt) Entries() []Entry { return a.entries }

// Reply sets the answer that is kept with the message's token.
func (a *Attempt) Reply(r Reply) { a.reply = &r }

// Blob adds an effect: an object that appears under its key.
func (a *Attempt) Blob(key string, body []byte) {
	a.blobs = append(a.blobs, stagedBlob{key, body})
}

// Effects returns the messages that the handler sent, in its order, followed by those of its timers
// and by its blobs, with the staging names of [Attempt.Staged]. Repeated destinations of an effect
// are removed: both copies would have the same identity but take two numbers of a sequence that
// must have no gaps.
func (a *Attempt) Effects() []Effect {
	var out []Effect
	for _, f := range a.effects {
		var to []string
		for _, name := range f.To {
			if !slices.Contains(to, name) {
				to = append(to, name)
			}
		}
		f.To = to
		out = append(out, f)
	}
	for _, c := range a.timers {
		if c.Effect != nil {
			out = append(out, *c.Effect)
		}
	}
	for i, b := range a.blobs {
		out = append(out, Effect{Blob: &Blob{Key: b.key, Staged: a.stagedName(i)}})
	}
	return out
}

// Staged returns the bodies of the blobs by their staging names, which are unique to the attempt.
func (a *Attempt) Staged() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i, b := range a.blobs {
			if !yield(a.stagedName(i), b.body) {
				return
			}
		}
	}
}

func (a *Attempt) stagedName(i int) string {
	return a.ID + "." + strconv.Itoa(i) + "-" + a.Group.Mark()
}

// Mark returns the first 64 bits of a hash of the key, in hexadecimal.
func (k GroupKey) Mark() string {
	sum := sha256.Sum256([]byte(k.Path()))
	return hex.EncodeToString(sum[:8])
}

// StagedFor returns the [GroupKey.Mark] of the group for which a blob was staged, read from the
// blob's name. If the name has no mark, the result matches no group.
func StagedFor(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Answer returns the handler's reply, or nil if it set none.
func (a *Attempt) Answer() *Reply { return a.reply }

// A RejectError refuses a message for good.
type RejectError struct {
	Detail string
	Err    error
	// Unkept says that nothing is to remember the refusal, because no other message has the
	// identity.
	Unkept bool
}

func (e *RejectError) Error() string {
	if e.Err == nil {
		return e.Detail
	}
	return e.Detail + ": " + e.Err.Error()
}

func (e *RejectError) Unwrap() error { return e.Err }

// A HandlerError says that a handler failed or panicked; the message can be retried.
type HandlerError struct {
	Err   error
	Stack []byte // of a panic
}

func (e *HandlerError) Error() string { return "handle message: " + e.Err.Error() }
func (e *HandlerError) Unwrap() error { return e.Err }
