package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
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

	effects []Effect
	entries []Entry
	blobs   []stagedBlob
	reply   *Reply
	omitted bool
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

// Effects returns the messages that the handler sent, in its order, followed by its blobs, with the
// staging names of [Attempt.Staged]. Repeated destinations of an effect are removed: both copies
// would have the same identity but take two numbers of a sequence that must have no gaps.
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
