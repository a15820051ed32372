package watermill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
)

// ErrClosed says that a publisher or subscriber is closed.
var ErrClosed = errors.New("closed")

// PublisherConfig configures a [Publisher]. Zero fields take the defaults in their comments.
type PublisherConfig struct {
	// Stream is the stream whose groups are the topics. Defaults to none: a topic is a stream.
	Stream string
	// Group returns the group of a message, if a topic is a stream. Messages of one group keep
	// their order up to the log. Defaults to a group for each message.
	Group func(topic string, m *message.Message) string
	// Timeout is how long Publish tries. Defaults to 30 seconds.
	Timeout time.Duration
}

// A Publisher is a message.Publisher.
type Publisher struct {
	client *client.Client
	config PublisherConfig
	ctx    context.Context //nolint:containedctx // the interface has no context
	cancel context.CancelFunc
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher. It does no input or output.
func NewPublisher(c *client.Client, config PublisherConfig) (*Publisher, error) {
	if c == nil {
		return nil, errors.New("publisher: the client must not be nil")
	}
	if config.Stream != "" && config.Group != nil {
		return nil, errors.New("publisher: Group is only for topics that are streams: with Stream, the group is the topic")
	}
	if config.Timeout <= 0 {
		config.Timeout = 30 * time.Second
	}
	p := &Publisher{client: c, config: config}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Publish sends messages, many in one request, and returns when all of them are durable. Messages
// of one call keep their order within their group.
//
// A message that was published in the topic before, under the same UUID, is not published again;
// if its content differs, Publish returns an error for it. A message without a UUID is a new
// message in each call.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if p.ctx.Err() != nil {
		return fmt.Errorf("publish to %s: %w", topic, ErrClosed)
	}
	out := make([]client.Message, len(messages))
	for i, m := range messages {
		var err error
		if out[i], err = p.convert(topic, m); err != nil {
			return fmt.Errorf("publish to %s: message %s: %w", topic, m.UUID, err)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.config.Timeout)
	defer cancel()
	var failed []error
	for i, result := range p.client.SendBatch(ctx, out) {
		if result.Err != nil {
			failed = append(failed, fmt.Errorf("publish to %s: message %s: %w", topic, messages[i].UUID, result.Err))
		}
	}
	return errors.Join(failed...)
}

func (p *Publisher) convert(topic string, m *message.Message) (client.Message, error) {
	headers, err := headersOf(m)
	if err != nil {
		return client.Message{}, err
	}
	out := client.Message{Stream: topic, Key: keyOf(m.UUID), Headers: headers, Body: m.Payload}
	switch {
	case p.config.Stream != "":
		out.Stream, out.Group, out.Key = p.config.Stream, topic, keyIn(topic, m.UUID)
	case p.config.Group != nil:
		out.Group = p.config.Group(topic, m)
	}
	return out, nil
}

// Close ends the calls of Publish that are under way: their messages may have been accepted.
func (p *Publisher) Close() error {
	p.cancel()
	return nil
}
