package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// run sends the messages that are not acknowledged until the context ends or the sender stops.
func (s *Sender) run(ctx context.Context) {
	defer close(s.stopped)
	pauses := s.client.backOff()
	for {
		part, ok := s.take(ctx)
		if !ok {
			return
		}
		err := s.deliver(ctx, part)
		if err == nil {
			pauses.Reset()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		wait := max(pauses.NextBackOff(), retryAfterOf(err))
		s.client.options.OnRetry(err, wait)
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// retryAfterOf returns the wait that a response has asked for.
func retryAfterOf(err error) time.Duration {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.RetryAfter
	}
	return 0
}

// maxPart is how many bytes of messages are sent together. In a request they take up to a third
// more.
const maxPart = maxBatchBytes / 2

// take waits until there are messages to send, and returns the first of them, as many as fit into
// one request. It returns false if the context ends or the sender has stopped.
func (s *Sender) take(ctx context.Context) (part []*queued, ok bool) {
	for {
		s.mu.Lock()
		if s.err != nil {
			s.mu.Unlock()
			return nil, false
		}
		size := 0
		for i, q := range s.queue {
			if s.first+uint64(i) > s.durable || len(part) == maxBatch || len(part) > 0 && size+q.size > maxPart {
				break
			}
			if !q.acknowledged {
				part, size = append(part, q), size+q.size
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if len(part) > 0 {
			return part, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// deliver sends messages once and settles those that the server has answered for good. The error is
// why others have to be sent again.
func (s *Sender) deliver(ctx context.Context, part []*queued) error {
	epoch, err := s.askEpoch(ctx)
	if err == nil {
		messages := make([]Message, len(part))
		for i, q := range part {
			messages[i] = q.message
			messages[i].Epoch = epoch
		}
		err = s.settle(part, messages, s.client.SendBatch(ctx, messages))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = err
	s.notify()
	return err
}

// askEpoch returns the epoch of the sender. If it has none yet, it asks the server, and keeps the
// epoch before any message is sent under it.
func (s *Sender) askEpoch(ctx context.Context) (uint64, error) {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	if epoch != 0 {
		return epoch, nil
	}
	epoch, err := s.client.IssueEpoch(ctx, s.options.Stream, s.options.Group, s.options.Source)
	p, refused := errors.AsType[*Problem](err)
	stored := err
	if err == nil {
		stored = s.spool.SetEpoch(epoch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case refused && p.Type == InvalidMessage: // the stream is not numbered
		s.fail(err)
	case err == nil && stored != nil:
		s.fail(fmt.Errorf("keep epoch: %w", stored))
	case err == nil:
		s.epoch = epoch
	}
	return epoch, stored
}

// settle notes the results of messages. The error is why some of them have to be sent again.
func (s *Sender) settle(part []*queued, sent []Message, results []Result) (again error) {
	for i, q := range part {
		err := results[i].Err
		p, answered := errors.AsType[*Problem](err)
		switch {
		case err == nil:
			s.locked(func() { q.acknowledged = true })
		case answered && stops(p):
			s.locked(func() { s.fail(err) })
			again = err
		case answered && ofMessage(err, p) && q.replaced < 2:
			s.replace(q, sent[i], p)
			again = errors.Join(again, err)
		default:
			again = err
		}
	}
	return errors.Join(again, s.forget())
}

func (s *Sender) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// stops reports whether a problem is the end of a sender.
func stops(p *Problem) bool { return p.Type == Fenced || p.Type == UnknownEpoch || p.Type == "ended" }

// ofMessage reports whether an error is a problem of one message. A problem of the whole request is
// not: if a slow network cuts off the body of a request, for example, the server answers 408, and
// has read none of its messages. Neither is a problem of the sender's rights or of its stream.
func ofMessage(err error, p *Problem) bool {
	if _, ok := errors.AsType[lineError](err); !ok {
		return false
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return p.Type != ""
	}
	return false
}

// replace gives the number of a refused message to another one. If the server has accepted the
// first one in an earlier try, it drops the second as a repetition of its number.
func (s *Sender) replace(q *queued, refused Message, p *Problem) {
	next := placeholder(p)
	if q.replaced == 0 {
		next = s.options.Refused(refused, p)
	}
	if s.check(&next) != nil {
		next = placeholder(p)
		_ = s.check(&next) // it is valid
	}
	next.Sequence = refused.Sequence
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= q.size
	q.message, q.size = next, sizeOf(&next)
	s.bytes += q.size
	q.replaced++
}

// forget removes the acknowledged messages that no other one is before.
func (s *Sender) forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.queue) && s.queue[n].acknowledged {
		s.bytes -= s.queue[n].size
		s.queue[n] = nil
		n++
	}
	if n == 0 {
		return nil
	}
	s.queue, s.first = s.queue[n:], s.first+uint64(n)
	if err := s.spool.Done(s.first - 1); err != nil {
		s.fail(fmt.Errorf("forget messages: %w", err))
		return err
	}
	return nil
}
