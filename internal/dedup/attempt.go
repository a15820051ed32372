package dedup

import (
	"context"
	"fmt"
	"runtime/debug"
)

// An Attempt is one run of a handler for a message. Nothing that it collects is visible before the commit.
type Attempt struct {
	// ID is unique to this attempt.
	ID string
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

// Send adds an effect: a message to destinations.
func (a *Attempt) Send(e Effect) { a.effects = append(a.effects, e) }

// Reply sets the answer that is kept with the message's token.
func (a *Attempt) Reply(r Reply) { a.reply = &r }

// Blob adds an effect: an object that appears under its key.
func (a *Attempt) Blob(key string, body []byte) {
	a.blobs = append(a.blobs, stagedBlob{key, body})
}

// A HandlerError says that a handler failed or panicked; the message can be tried again.
type HandlerError struct {
	Err   error
	Stack []byte // of a panic
}

func (e *HandlerError) Error() string { return "handle message: " + e.Err.Error() }
func (e *HandlerError) Unwrap() error { return e.Err }

// run calls the handler; a panic is an error.
func run(ctx context.Context, h Handler, a *Attempt, m Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()}
		}
	}()
	return h(ctx, a, m)
}
