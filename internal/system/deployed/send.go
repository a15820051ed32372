package deployed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// QueueKind chooses an ingress queue.
type QueueKind string

// The kinds.
const (
	// keeps the order of each group; right for all streams but numbered ones
	FIFO QueueKind = "fifo"
	// keeps no order; right for numbered messages, which bring their own, and where order does not
	// matter
	Standard QueueKind = "standard"
)

// A QueueSender puts messages on an ingress queue, without the HTTP API: a duplicate is
// recognized only behind the queue. It may be used concurrently.
type QueueSender struct {
	queue   queue.Queue
	options client.Options
}

// QueueSender returns a sender to a queue of the stack. It reads only MaxElapsed, MinBackoff,
// MaxBackoff and OnRetry of the options, with the same defaults.
func (s *Stack) QueueSender(kind QueueKind, o client.Options) *QueueSender {
	url := s.Outputs.IngressFIFOQueueURL
	if kind == Standard {
		url = s.Outputs.IngressQueueURL
	}
	return newQueueSender(sqsqueue.New(s.sqs, url), o)
}

func newQueueSender(q queue.Queue, o client.Options) *QueueSender {
	if o.MinBackoff == 0 {
		o.MinBackoff = 100 * time.Millisecond
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = 10 * time.Second
	}
	return &QueueSender{queue: q, options: o}
}

// Send puts a message on the queue until SQS has acknowledged it, every try under the same
// identity. The errors are those of client.Client.Send: a [*client.Problem] if no queue would take
// the message, a [*client.UnacknowledgedError] if no answer came in time. It returns a
// [*DeniedError] if the caller may not send.
func (s *QueueSender) Send(ctx context.Context, m client.Message) (client.Receipt, error) {
	if m.Key == "" && m.Source == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return client.Receipt{}, fmt.Errorf("make key: %w", err)
		}
		m.Key = id.String()
	}
	if !m.NotBefore.IsZero() {
		return client.Receipt{}, refusal(&record.InvalidError{Field: "delay", Rule: "is not possible on a queue: send the message to the API"})
	}
	message := record.Message{
		Stream: m.Stream, ID: m.Key, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, Seen: m.Seen, End: m.End,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}
	if err := message.Validate(); err != nil {
		return client.Receipt{}, refusal(err)
	}
	// one deduplication id for all tries: if the message arrives twice, a first-in-first-out queue
	// takes it once
	out := wire.ToQueue(message)
	if !queue.FIFO(s.queue.Name()) {
		out.Group, out.DedupID = "", ""
	}
	if err := s.until(ctx, out); err != nil {
		return client.Receipt{}, fmt.Errorf("send message: %w", keyed(err, m.Key))
	}
	return client.Receipt{ID: message.Identity(), Stream: m.Stream, Group: message.GroupName(), Status: "queued"}, nil
}

func (s *QueueSender) until(ctx context.Context, m queue.Message) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval, policy.Multiplier, policy.RandomizationFactor = s.options.MinBackoff, s.options.MaxBackoff, 2, 0.5
	var last error
	attempt := func() (struct{}, error) {
		last = s.queue.Send(ctx, []queue.Message{m})[0].Err
		if fatal := hopeless(last); fatal != nil {
			return struct{}{}, backoff.Permanent(fatal)
		}
		return struct{}{}, last
	}
	notify := func(_ error, wait time.Duration) {
		if s.options.OnRetry != nil {
			s.options.OnRetry(last, wait)
		}
	}
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(s.options.MaxElapsed), backoff.WithNotify(notify))
	if err == nil || hopeless(last) != nil {
		return err
	}
	open := &client.UnacknowledgedError{Err: last}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(last, cause) {
		open.Err = fmt.Errorf("%w; the last try: %w", cause, last)
	}
	return open
}

// hopeless returns the error if trying again would not change it, nil otherwise.
func hopeless(err error) error {
	var invalid *queue.InvalidError
	var gone *types.QueueDoesNotExist
	var denied *DeniedError
	switch {
	case errors.As(err, &invalid):
		return refusal(err)
	case errors.As(explain(err), &denied):
		return denied
	case errors.As(err, &gone):
		return &DeniedError{"the ingress queue is gone: was the stack deleted or replaced?", err}
	}
	return nil
}

func refusal(err error) *client.Problem {
	return &client.Problem{Type: client.InvalidMessage, Title: "Invalid message", Status: http.StatusBadRequest, Detail: err.Error()}
}

// keyed adds the key under which to try again.
func keyed(err error, key string) error {
	if open, ok := errors.AsType[*client.UnacknowledgedError](err); ok {
		open.Key = key
	}
	return err
}
