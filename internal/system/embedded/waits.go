package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// maxSearched is how many messages of a queue are read to find one of them.
const maxSearched = 10_000

// Group returns one group, and for what it waits.
func (s *System) Group(ctx context.Context, stream, group string) (admin.GroupInfo, error) {
	key := record.GroupKey{Stream: stream, Group: group}
	return admin.ReadGroup(ctx, s.store, key, s.engine.Stream, s.waiting.Of(key))
}

// Message returns the state of one message, and for what it waits.
func (s *System) Message(ctx context.Context, stream, id string) (admin.MessageInfo, error) {
	info, err := s.QuickMessage(ctx, stream, id)
	if _, known := s.engine.Stream(stream); !known || !errors.Is(err, admin.ErrNotFound) {
		return info, err
	}
	// A message that came by SQS has no token, and a numbered one may be in any group: the group's
	// record is the only place that has its name.
	if found, failed := admin.SearchGroups(ctx, s.store, hashOf(stream, id), s.passedOver); failed == nil {
		return s.message(ctx, found)
	}
	return info, err
}

// principals returns the principals that messages may have, as far as they are known.
func (s *System) principals() []string {
	f := s.front.Load()
	if f == nil || f.access == nil {
		return nil
	}
	return f.access.Principals()
}

// message returns the state of a message whose group is known, or is in its token.
func (s *System) message(ctx context.Context, m record.Message) (admin.MessageInfo, error) {
	known, ok := s.engine.Stream(m.Stream)
	if !ok { // of a stream that is not configured any more
		return admin.MessageInfo{}, fmt.Errorf("stream %s: %w", m.Stream, admin.ErrNotFound)
	}
	id := m.Identity()
	state, err := s.engine.Status(ctx, m)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	var queued *queue.Delivery
	if state.Status == admission.StatusUnknown || state.Status == admission.StatusAccepted {
		var decoded record.Message
		if queued, decoded, err = s.queued(func(q *record.Message) bool { return q.Stream == m.Stream && q.Identity() == id }); err != nil {
			return admin.MessageInfo{}, err
		}
		switch {
		case queued != nil: // a message that came by SQS has no token before it is processed
			state.Status, state.Group = admission.StatusAccepted, decoded.GroupName()
		case state.Status == admission.StatusUnknown:
			return admin.MessageInfo{}, fmt.Errorf("message %s of stream %s: %w", id, m.Stream, admin.ErrNotFound)
		}
	}
	info, err := admin.MessageOf(ctx, s.store, m, state, known.Admission != record.BySequence, s.options.Now(), s.waiting.Of)
	if err == nil && queued != nil && (len(info.Waiting) == 0 || info.Waiting[0].For == admin.WaitTime) { // a copy may be due before another one
		info.Waiting = []admin.Wait{{For: admin.WaitQueue, ID: id, Queue: queued.Queue, Tries: queued.Receives}}
	}
	return info, err
}

// queued returns the first message in the ingress queues that matches, nil if there is none among
// the oldest [maxSearched] of each.
func (s *System) queued(match func(*record.Message) bool) (*queue.Delivery, record.Message, error) {
	for _, q := range s.queues.all() {
		if q != s.queues.ingress && q != s.queues.ingressFIFO {
			continue
		}
		list, err := q.Peek(maxSearched)
		if err != nil {
			return nil, record.Message{}, err
		}
		for i := range list {
			// a message that can't be decoded has no identity
			if m, _, err := wire.FromQueue(&list[i], trusting()); err == nil && match(&m) {
				return &list[i], m, nil
			}
		}
	}
	return nil, record.Message{}, nil
}

// ByHash returns one message by its hash in the log. It looks where [System.QuickByHash] looks, and
// then reads the whole store.
func (s *System) ByHash(ctx context.Context, o admin.HashOptions) (admin.MessageInfo, error) {
	info, err := s.QuickByHash(ctx, o)
	if !errors.Is(err, admin.ErrNotFound) {
		return info, err
	}
	found, err := admin.Search(ctx, s.store, o, s.passedOver)
	if err != nil {
		return admin.MessageInfo{}, err
	}
	if found.Message.ID == "" {
		return found.Info(), nil
	}
	return s.message(ctx, found.Message)
}
