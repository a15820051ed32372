package watermill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

// SubscriberConfig configures a [Subscriber]. Zero fields take the defaults in their comments.
type SubscriberConfig struct {
	// Stream is the stream whose groups are the topics. Defaults to none: a topic is a stream
	// with a pool.
	Stream string
	// ConsumerGroup is the name of the session. Required. Every consumer group of a topic that is
	// a group gets all messages, and has its own position.
	ConsumerGroup string
	// Holder names this process, see [client.SessionOptions]. With a name, the process continues
	// at once after a crash. Each subscriber needs its own; a name needs Take too.
	Holder string
	// Take defaults to [client.TakeFree].
	Take client.Take
	// Lease is how long other subscribers of the consumer group wait after this one has crashed.
	// Defaults to 30 seconds.
	Lease time.Duration
	// CommitEvery is how many acknowledged messages are committed in one write, or in one
	// transaction of Database. After a crash, at most so many are delivered again. Defaults to 1.
	CommitEvery int
	// Database makes each message part of a transaction, in which the handler writes, and which
	// also moves the cursor: see [TxFromContext]. The table has to exist. Defaults to none: the
	// cursor is the server's.
	Database *sqlcursor.Table
	// RetryPause is the pause before the session is opened again after an error that the client
	// does not retry: the stream is unknown, or a message has failed too often. Defaults to 10
	// seconds.
	RetryPause time.Duration
	// Logger gets the errors of sessions. Defaults to discarding.
	Logger watermill.LoggerAdapter
}

// A Subscriber is a message.Subscriber.
type Subscriber struct {
	client *client.Client
	config SubscriberConfig

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	running sync.WaitGroup
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber. It does no input or output.
func NewSubscriber(c *client.Client, config SubscriberConfig) (*Subscriber, error) {
	switch {
	case c == nil:
		return nil, errors.New("subscriber: the client must not be nil")
	case config.ConsumerGroup == "":
		return nil, errors.New("subscriber: ConsumerGroup must not be empty: it names the session that remembers the position")
	}
	if config.CommitEvery <= 0 {
		config.CommitEvery = 1
	}
	if config.RetryPause <= 0 {
		config.RetryPause = 10 * time.Second
	}
	if config.Logger == nil {
		config.Logger = watermill.NopLogger{}
	}
	return &Subscriber{client: c, config: config, closing: make(chan struct{})}, nil
}

// Subscribe returns a channel with the messages of a topic, in order, one at a time: the next one
// comes after Ack. After Nack the same message comes again, when the client's backoff has passed.
// The session counts it as a failed try; if the stream is configured for it, a message that fails
// too often becomes a dead letter. Otherwise it is delivered until it is acknowledged.
//
// The channel is closed when ctx ends, when the subscriber is closed, or after the end of the
// log. Subscribe returns before the session is open: while another subscriber of the consumer
// group has it, this one waits.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, ErrClosed)
	}
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan *message.Message)
	s.running.Go(func() {
		defer close(out)
		defer cancel()
		s.consume(ctx, topic, s.worker(out))
	})
	s.running.Go(func() {
		defer cancel()
		select {
		case <-s.closing:
		case <-ctx.Done():
		}
	})
	return out, nil
}

func (s *Subscriber) worker(out chan<- *message.Message) client.Worker {
	if s.config.Database != nil {
		return &transactions{out: out, table: *s.config.Database}
	}
	return &delivery{out: out}
}

// consume consumes the session of a topic until the context ends, or the session.
func (s *Subscriber) consume(ctx context.Context, topic string, w client.Worker) {
	o := client.SessionOptions{
		Stream: topic, Name: s.config.ConsumerGroup, Holder: s.config.Holder, Take: s.config.Take,
		Lease: s.config.Lease, Max: s.config.CommitEvery,
	}
	if s.config.Stream != "" {
		o.Stream, o.Group = s.config.Stream, topic
	}
	fields := watermill.LogFields{"topic": topic, "consumer_group": s.config.ConsumerGroup}
	for {
		err := s.client.ConsumeWith(ctx, o, w)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.config.Logger.Error("session has stopped, opening it again", err, fields)
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.config.RetryPause):
		}
	}
}

// Close ends all subscriptions, and returns when their channels are closed. A message that is not
// acknowledged is delivered again, to the next subscriber of the consumer group.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
