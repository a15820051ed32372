package api

import (
	"context"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// acceptAll makes the messages of a batch durable and returns the fate of each. It refuses those of
// epochs that are not valid any more.
func (s *server) acceptAll(ctx context.Context, stream record.Stream, messages []record.Message) []fate {
	errs := s.checkEpochs(ctx, stream, messages)
	if errs == nil {
		return s.acceptChecked(ctx, stream, messages)
	}
	fates := make([]fate, len(messages))
	var valid []int
	for i, err := range errs {
		if fates[i].err = err; err == nil {
			valid = append(valid, i)
		}
	}
	if len(valid) > 0 {
		for k, f := range s.acceptChecked(ctx, stream, pick(messages, valid)) {
			fates[valid[k]] = f
		}
	}
	return fates
}

// acceptChecked makes the messages of a batch durable and returns the fate of each. It processes
// the messages of groups of which nothing is on the queue, and puts the others on the queue. No two
// of the messages have the same identity. Delayed messages wait, and have no order.
func (s *server) acceptChecked(ctx context.Context, stream record.Stream, messages []record.Message) []fate {
	now := s.Now()
	if !waitsAny(messages, now) {
		return s.acceptNow(ctx, stream, messages)
	}
	var later, rest []int
	for i := range messages {
		if messages[i].Waits(now) {
			later = append(later, i)
		} else {
			rest = append(rest, i)
		}
	}
	fates := make([]fate, len(messages))
	for k, f := range s.accept(ctx, stream, pick(messages, later)) {
		fates[later[k]] = f
	}
	if len(rest) > 0 {
		for k, f := range s.acceptNow(ctx, stream, pick(messages, rest)) {
			fates[rest[k]] = f
		}
	}
	return fates
}

// acceptNow is acceptChecked for messages that are not delayed.
func (s *server) acceptNow(ctx context.Context, stream record.Stream, messages []record.Message) []fate {
	var tries Tries
	if s.Direct != nil {
		tries = s.Direct.BeginAll(ctx, stream, messages)
	}
	if tries == nil {
		return s.accept(ctx, stream, messages)
	}
	ahead, queued := make([]int, 0, len(messages)), []int(nil)
	for i := range messages {
		if tries.Has(i) {
			ahead = append(ahead, i)
		} else {
			queued = append(queued, i)
		}
	}
	defer tries.End()
	fates := make([]fate, len(messages))
	s.directAll(ctx, stream, messages, ahead, fates, tries)
	if len(queued) > 0 { // all of their groups
		for k, f := range s.accept(ctx, stream, pick(messages, queued)) {
			fates[queued[k]] = f
		}
	}
	return fates
}

// directAll processes messages of a batch without the queue. It puts those on the queue, in their
// places, that are not settled by that. See direct, which does so for one message.
func (s *server) directAll(ctx context.Context, stream record.Stream, messages []record.Message, ahead []int, fates []fate, tries Tries) {
	if stream.Admission == record.ByToken && len(ahead) > 0 {
		s.issueAll(ctx, messages, ahead, fates)
		ahead = unsettled(ahead, fates)
	}
	if len(ahead) == 0 {
		return
	}
	if _, limited := ctx.Deadline(); !limited {
		ctx = context.WithoutCancel(ctx)
	}
	var left, places []int // of results: the indexes of messages, and their own
	for k, t := range tries.Process(ctx, ahead) {
		f := &fates[ahead[k]]
		switch {
		case t.Left:
			left, places = append(left, ahead[k]), append(places, k)
		case t.Err != nil:
			f.err = refusal(t.Err)
		default:
			f.replayed = stream.Admission != record.BySequence && (f.replayed || t.Replayed)
		}
	}
	if stream.Admission == record.ByKey && len(left) > 0 {
		s.issueAll(ctx, messages, left, fates)
		places = slices.DeleteFunc(places, func(k int) bool { return fates[ahead[k]].settled() })
	}
	if len(places) == 0 {
		return
	}
	put := make([]record.Message, len(places))
	sent := make([]fate, len(places))
	for j, err := range tries.Enqueue(ctx, places) {
		i := ahead[places[j]]
		fates[i].err = err
		put[j], sent[j] = messages[i], fates[i]
	}
	s.enqueued(ctx, stream, put, sent)
	for j, k := range places {
		fates[ahead[k]].err = sent[j].err
	}
}

// issueAll issues the tokens of messages, named by their indexes, before they are processed or put
// on the queue. A message behind one of its group that is to be sent again gets an error too.
func (s *server) issueAll(ctx context.Context, messages []record.Message, which []int, fates []fate) {
	part := pick(messages, which)
	issued := s.issued(ctx, part)
	keepOrder(part, issued)
	for k, i := range which {
		fates[i] = issued[k]
	}
}

// settled reports whether a message is refused or done, now that its token is issued.
func (f *fate) settled() bool { return f.err != nil || f.token.State == record.Done }

func unsettled(which []int, fates []fate) []int {
	return slices.DeleteFunc(which, func(i int) bool { return fates[i].settled() })
}

func pick(messages []record.Message, which []int) []record.Message {
	if len(which) == len(messages) {
		return messages
	}
	out := make([]record.Message, len(which))
	for k, i := range which {
		out[k] = messages[i]
	}
	return out
}
