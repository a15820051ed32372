package api

import (
	"context"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// Direct processes messages without the queue. It may be used concurrently.
type Direct interface {
	// Begin returns false if the message has to go through the queue; the try may then be nil. If it
	// is not nil, the caller calls End when it is done with the try, or when the message is on the
	// queue. Begin may wait for another try of the same message.
	Begin(ctx context.Context, s record.Stream, m *record.Message) (Try, bool)
	// BeginAll is Begin for the messages of a batch. It may return nil if all of them have to go
	// through the queue. Of a group it takes all messages or none. The caller calls End when the
	// other messages are on the queue, too.
	BeginAll(ctx context.Context, s record.Stream, messages []record.Message) Tries
}

// Tries are the messages of a batch that are being processed without the queue.
type Tries interface {
	// Has reports whether message i of the batch is one of them.
	Has(i int) bool
	// Process processes messages of the batch and returns the result of each. The messages are
	// named by their indexes in ascending order. Process is called once. It may return while
	// messages are still being processed.
	Process(ctx context.Context, open []int) []Tried
	// Enqueue puts messages on the queue in their places, and returns an error for each. The
	// messages are named by their indexes in the results of Process, in ascending order. See
	// [Queue].
	Enqueue(ctx context.Context, which []int) []error
	// End releases the places in the order of the groups.
	End()
}

// Tried is the result of a message of a batch.
type Tried struct {
	// Left says that the message has to be put on the queue. Otherwise its result is durable.
	Left bool
	// Replayed says that it was processed before.
	Replayed bool
	// Err is a [*record.RefusedError] if its identity belongs to another message.
	Err error
}

// A Try is one message that is being processed without the queue.
type Try interface {
	// Process returns false if the message has to be put on the queue. Otherwise its state is
	// durable, and replayed reports whether it was processed before. The error is a
	// [*record.RefusedError] if its identity belongs to another message. Process may return while
	// the message is still being processed.
	Process(ctx context.Context) (state admission.State, replayed, ok bool, err error)
	// Enqueue puts the message on the queue in its place. See [Queue]. It is called after Process.
	Enqueue(ctx context.Context) error
	// End releases the message's place in the order of its group.
	End()
}

// acceptOne makes one message durable. It processes the message if nothing of its group is on the
// queue, and otherwise puts it on the queue.
func (s *server) acceptOne(ctx context.Context, stream record.Stream, m record.Message) fate {
	if errs := s.checkEpochs(ctx, stream, []record.Message{m}); errs != nil {
		return fate{err: errs[0]}
	}
	if s.Direct != nil && !m.Waits(s.Now()) {
		try, ok := s.Direct.Begin(ctx, stream, &m)
		if try != nil {
			defer try.End()
		}
		if ok {
			return s.direct(ctx, stream, m, try)
		}
	}
	return s.accept(ctx, stream, []record.Message{m})[0]
}

// direct processes a message without the queue; if that does not settle it, it goes on the queue.
// Its token is issued first only if it could not be processed otherwise, or is to be queued.
//
// The work continues if the caller disconnects: an attempt may be committed already, and only the
// queue repeats one whose result is unknown.
func (s *server) direct(ctx context.Context, stream record.Stream, m record.Message, try Try) fate {
	f := fate{direct: true}
	if stream.Admission == record.ByToken && !s.issue(ctx, stream, m, &f) {
		return f
	}
	if _, limited := ctx.Deadline(); !limited {
		ctx = context.WithoutCancel(ctx)
	}
	state, replayed, ok, err := try.Process(ctx)
	switch {
	case err != nil:
		f.err = refusal(err)
		return f
	case ok:
		numbered := stream.Admission == record.BySequence
		f.state, f.late = state, numbered && replayed
		f.replayed = !numbered && (f.replayed || replayed)
		return f
	}
	if stream.Admission != record.ByToken && !s.issue(ctx, stream, m, &f) {
		return f
	}
	f.err = try.Enqueue(ctx)
	fates := []fate{f}
	s.enqueued(ctx, stream, []record.Message{m}, fates)
	return fates[0]
}

// issue issues the token of a message before it is processed or queued. It returns false if the
// fate is settled by that. Numbered messages have no token.
func (s *server) issue(ctx context.Context, stream record.Stream, m record.Message, f *fate) bool {
	if stream.Admission == record.BySequence {
		return true
	}
	token, fresh, err := s.Engine.Issue(ctx, m)
	f.token, f.replayed, f.err = token, !fresh, refusal(err)
	if f.err == nil && token.State == record.Leased {
		f.err = s.leased(token)
	}
	return f.err == nil && token.State != record.Done
}
