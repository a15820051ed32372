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

// A Handler processes one message by changing the attempt: its state, effects, reply and blobs. An error that is a [*RejectError] refuses the message for
// good; any other error, and a panic, means try again. Nothing of a failed attempt becomes visible.
type Handler func(ctx context.Context, a *Attempt, m Message) error

// Run calls the handler; a panic is a [*HandlerError].
func (h Handler) Run(ctx context.Context, a *Attempt, m Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()}
		}
	}()
	return h(ctx, a, m)
}

// An Attempt is one run of a handler for a message. Nothing that it collects is visible before the commit.
type Attempt struct {
	// ID is unique to this attempt.
	ID string
	// Group is the one that it is for; the names of its blobs tell it.
	Group GroupKey
	// State is the group's state; the handler may replace it.
	State []byte

	effects []Effect
	blobs   []stagedBlob
	reply   *Reply
}

type stagedBlob struct {
	key  string
	body []byte
}

// RequestAttempt ends the names of attempts at one-time requests. Their tokens are marked done by a condition, because a DELETE may have been there first.
const RequestAttempt = ".request"

// Send adds an effect: a message to destinations.
func (a *Attempt) Send(e Effect) { a.effects = append(a.effects, e) }

// Reply sets the answer that is kept with the message's token.
func (a *Attempt) Reply(r Reply) { a.reply = &r }

// Blob adds an effect: an object that appears under its key.
func (a *Attempt) Blob(key string, body []byte) {
	a.blobs = append(a.blobs, stagedBlob{key, body})
}

// Effects gives what the handler sent, in its order, and then its blobs, under the names of [Attempt.Staged]. No effect has a destination twice: the two would be one
// identity, but two numbers where numbers have no gaps.
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

// Staged gives the bodies of the blobs, by the names they are to be staged under: unique to the attempt.
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

// Mark is the beginning of a hash of the key, 64 bits in hexadecimal.
func (k GroupKey) Mark() string {
	sum := sha256.Sum256([]byte(k.Path()))
	return hex.EncodeToString(sum[:8])
}

// StagedFor tells the group of an attempt by the name of a blob that it staged: the group's [GroupKey.Mark], or what is none where the name does not tell.
func StagedFor(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Answer is what the handler replied; nil where it did not.
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

// A HandlerError says that a handler failed or panicked; the message can be tried again.
type HandlerError struct {
	Err   error
	Stack []byte // of a panic
}

func (e *HandlerError) Error() string { return "handle message: " + e.Err.Error() }
func (e *HandlerError) Unwrap() error { return e.Err }
