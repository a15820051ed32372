package record

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"
)

// DefaultBatchSize is how many messages a [BatchHandler] gets with one call if its stream does not
// say it.
const DefaultBatchSize = 100

// MaxBatchState is the largest state that the answer of a [BatchHandler] may have, in bytes. It fits
// into a record of every store.
const MaxBatchState = 256 << 10

// A BatchHandler processes messages of one group with one call. It answers them in their order, with
// [Batch.Accept] and [Batch.Reject], and sets the state. It may answer only the first ones, but at
// least one: it is called again with the others after the commit.
//
// The answer is committed as a whole or not at all, if the record of the group is still at
// Batch.Version. Otherwise it is discarded and the handler is called again, with another
// [Batch.ID]. The engine also discards an answer that does not fit into one commit, and calls the
// handler again with fewer messages.
//
// If the handler returns an error or panics, its answer is discarded. If it had several messages, it
// is called again with the first one alone, so that a message that always fails does not count as a
// failure of others. If it had one message, the error means the same as that of a [Handler].
type BatchHandler func(ctx context.Context, b *Batch) error

// Run calls the handler and checks its answer. It returns a panic as a [*HandlerError].
func (h BatchHandler) Run(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()}
		}
	}()
	if err := h(ctx, b); err != nil {
		return err
	}
	return b.check()
}

// A Batch is one call of a [BatchHandler], and its answer.
type Batch struct {
	// ID is unique to this call.
	ID string
	// Group is the group of all messages.
	Group GroupKey
	// Version is the version of the group record, 0 if there is none.
	Version uint64
	// State is the group's state at Version. The handler may replace it by the state after the last
	// message that it answers, of at most [MaxBatchState] bytes. It is not committed if the handler
	// rejects every message that it answers.
	State []byte
	// Log is the end of the group's log at Version.
	Log Log
	// Now and NoTimers are those of the attempts, see [Attempt].
	Now      time.Time
	NoTimers error
	// Messages are the messages, in their order. There is at least one.
	Messages []Message

	answers []Answer
}

// An Answer is a [BatchHandler]'s answer to one message: one of its fields is set.
type Answer struct {
	// Attempt has the results of a message that was accepted. Its State has no meaning.
	Attempt *Attempt
	// Reject is set if the message was refused for good.
	Reject *RejectError
}

// Accept answers the next message: it is processed. The returned attempt collects its effects,
// entries and reply. Its State has no meaning: a batch has one state, [Batch.State].
func (b *Batch) Accept() *Attempt {
	a := &Attempt{ID: b.ID + "." + strconv.Itoa(len(b.answers)+1), Group: b.Group, Log: b.Log, Now: b.Now, NoTimers: b.NoTimers}
	if n := len(b.answers); n < len(b.Messages) && b.Messages[n].Route != "" {
		a.ID += RequestAttempt
	}
	b.answers = append(b.answers, Answer{Attempt: a})
	return a
}

// Reject answers the next message: it is refused for good, and goes to the dead-letter queue with
// the detail. The detail is for people and must not contain secrets.
func (b *Batch) Reject(detail string) {
	b.answers = append(b.answers, Answer{Reject: &RejectError{Detail: detail}})
}

// Answers returns the answers so far, in the order of the messages.
func (b *Batch) Answers() []Answer { return b.answers }

// check returns an error if the answer can't be committed, whatever the record.
func (b *Batch) check() error {
	switch {
	case len(b.answers) == 0:
		return fmt.Errorf("the handler answered none of %d messages", len(b.Messages))
	case len(b.answers) > len(b.Messages):
		return fmt.Errorf("the handler answered %d messages, but got %d", len(b.answers), len(b.Messages))
	case len(b.State) > MaxBatchState:
		return fmt.Errorf("the handler's state has %d bytes, more than %d", len(b.State), MaxBatchState)
	}
	return nil
}
