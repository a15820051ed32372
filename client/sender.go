package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ErrFull says that a [Sender] with [Fail] has as many unacknowledged messages as it may keep.
var ErrFull = errors.New("too many messages are not acknowledged")

// ErrClosed says that a [Sender] is closed.
var ErrClosed = errors.New("the sender is closed")

// WhenFull is what [Sender.Send] does if the sender has as many messages as it may keep.
type WhenFull string

// What Send does beyond the bounds.
const (
	Wait WhenFull = "wait" // until there is room, or the context ends
	Fail WhenFull = "fail" // return ErrFull
)

// SenderOptions configure a [Sender]. Zero fields take the defaults in their comments.
type SenderOptions struct {
	// Stream and Source are required. The stream is numbered (admission: sequence). Only one sender
	// at a time may use a source in a group: a second one fences the first.
	Stream string
	Source string
	// Group is the group of all messages. Defaults to the source.
	Group string
	// Folder keeps the messages until they are acknowledged, and the numbers. A sender that is
	// opened with the same folder after a crash continues where the last one was. Only one process
	// can have it open. Defaults to none: messages are kept in memory.
	Folder string
	// MaxMessages and MaxBytes bound the messages that are not acknowledged; a single message of
	// any size fits. They default to 10,000 and 64 MiB.
	MaxMessages int
	MaxBytes    int
	// WhenFull defaults to [Wait].
	WhenFull WhenFull
	// Refused is called with a message that the server will never accept, and its refusal. Its
	// number can't be left out, because the server holds the later ones until it comes: the message
	// that Refused returns takes it. If the refusal is [Problem.Ambiguous], the server may have
	// accepted the message in an earlier try; then the number has its effect, and the replacement
	// has none. Refused may be called again for the same message after a restart. Defaults to a
	// message with an empty body and the header X-Once-Refused, the type of the problem.
	Refused func(m Message, p *Problem) Message
}

func (o SenderOptions) withDefaults() SenderOptions {
	o.Group = cmp.Or(o.Group, o.Source)
	if o.MaxMessages <= 0 {
		o.MaxMessages = 10_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	o.WhenFull = cmp.Or(o.WhenFull, Wait)
	if o.Refused == nil {
		o.Refused = func(_ Message, p *Problem) Message { return placeholder(p) }
	}
	return o
}

// placeholder takes the number of a refused message.
func placeholder(p *Problem) Message {
	return Message{Headers: map[string]string{"X-Once-Refused": string(p.Type)}}
}

// A Sender sends messages of one source in order. It keeps them until the server has acknowledged
// them, and sends them again under the same numbers, so that the server processes each once, also
// after lost connections, crashes of the server and, with a folder, crashes of the sender. Send
// does not wait for the server, so it works while there is no connection. It may be used
// concurrently; the order is then that of the calls.
//
// The numbers count from 1 under an epoch that the server issues: see [Client.IssueEpoch]. A sender
// without a folder asks for one each time it is made. The server then refuses the messages that an
// earlier sender of the source still sends. Messages of the earlier sender that the server has
// accepted, but not yet processed, become dead letters when the first message of the new epoch
// arrives. With a folder, the same epoch and numbers are used after a restart.
//
// If the server reports that a newer epoch was issued ([Fenced]), or that it has forgotten this one
// ([UnknownEpoch]), the sender stops: every method returns the problem. See
// [Sender.Unacknowledged] for the messages that are left. Never restore an older copy of a folder:
// its numbers are used up, and messages under them would be dropped as repetitions. Delete the
// folder instead.
type Sender struct {
	client  *Client
	options SenderOptions
	spool   spool
	stop    context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed when any of the fields below changes, then replaced
	queue   []*queued     // not acknowledged, in the order of their numbers
	first   uint64        // the number of the first one
	durable uint64        // the last number that may be sent
	bytes   int
	epoch   uint64
	err     error // why the sender has stopped
	trouble error // why the last try has failed
	closed  bool
}

// A queued message is one that is not acknowledged.
type queued struct {
	message      Message
	size         int
	acknowledged bool // a message before it is not
	replaced     int  // how often the server has refused a message with its number
}

// A spool keeps messages across restarts.
type spool interface {
	// Append adds the message of the next number. It returns a function that waits until the
	// message is durable.
	Append(m Message) (sync func() error, err error)
	// SetEpoch keeps the epoch, durably.
	SetEpoch(epoch uint64) error
	// Done forgets the messages up to a number, at some time.
	Done(number uint64) error
	Close() error
}

// Sender returns a sender. It opens the folder, if there is one, and starts to send its messages.
// Call [Sender.Close] in the end.
func (c *Client) Sender(o SenderOptions) (*Sender, error) {
	o = o.withDefaults()
	if o.WhenFull != Wait && o.WhenFull != Fail {
		return nil, fmt.Errorf("make sender: WhenFull %q is neither %q nor %q", o.WhenFull, Wait, Fail)
	}
	s := &Sender{client: c, options: o, stopped: make(chan struct{}), changed: make(chan struct{}), first: 1}
	if err := s.check(&Message{}); err != nil {
		return nil, fmt.Errorf("make sender: %w", err)
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("make sender: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	return s, nil
}

// The server's limits on a numbered message. A message beyond them has no number yet, so it leaves
// no gap.
const (
	maxBody    = 256 << 10
	maxHeaders = 16 << 10
	maxParents = 100
)

// check sets the fields of a message that the sender decides, and checks the others.
func (s *Sender) check(m *Message) error {
	m.Stream, m.Group, m.Source, m.Epoch, m.Sequence, m.Wait = s.options.Stream, s.options.Group, s.options.Source, 0, 1, 0
	if m.Source == "" {
		return errors.New("source must not be empty")
	}
	if err := m.Validate(); err != nil {
		return err
	}
	size := len(m.ContentType)
	for name, value := range m.Headers {
		size += len(name) + len(value)
	}
	switch {
	case len(m.Body) > maxBody:
		return fmt.Errorf("body must be at most %d bytes", maxBody)
	case size > maxHeaders:
		return fmt.Errorf("headers must be at most %d bytes together", maxHeaders)
	case len(m.Parents) > maxParents || slices.Contains(m.Parents, 0):
		return fmt.Errorf("parents must be at most %d numbers of entries, from 1 on", maxParents)
	}
	return nil
}

// Send keeps the message and returns its number; it is sent later. With a folder, the message is
// durable when Send returns. Stream, Group, Source, Epoch and Sequence of m are overwritten.
//
// It returns [ErrFull] beyond the bounds if the sender is to fail then, [ErrClosed], the problem
// that has stopped the sender, or the reason why the message is invalid or can't be stored. After
// an error the message is not sent, unless writing the folder failed: then the sender stops, and
// the message may be in the folder.
func (s *Sender) Send(ctx context.Context, m Message) (number uint64, err error) {
	if err := s.check(&m); err != nil {
		return 0, fmt.Errorf("send message: %w", err)
	}
	// The caller may reuse its own.
	m.Body, m.Headers, m.DependsOn, m.Parents = bytes.Clone(m.Body), maps.Clone(m.Headers), maps.Clone(m.DependsOn), slices.Clone(m.Parents)
	q := &queued{message: m, size: sizeOf(&m)}
	for {
		number, sync, changed, err := s.add(q)
		if err != nil {
			return 0, fmt.Errorf("send message: %w", err)
		}
		if changed == nil {
			return number, s.await(number, sync)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("send message: %w: %w", ErrFull, context.Cause(ctx))
		}
	}
}

// add assigns the next number to a message, if there is room. Otherwise it returns a channel that
// is closed when there may be room.
func (s *Sender) add(q *queued) (number uint64, sync func() error, changed chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.queue) >= s.options.MaxMessages || len(s.queue) > 0 && s.bytes+q.size > s.options.MaxBytes
	switch {
	case s.err != nil:
		return 0, nil, nil, s.err
	case s.closed:
		return 0, nil, nil, ErrClosed
	case full && s.options.WhenFull == Fail:
		return 0, nil, nil, ErrFull
	case full:
		return 0, nil, s.changed, nil
	}
	number = s.first + uint64(len(s.queue))
	q.message.Sequence = number
	if sync, err = s.spool.Append(q.message); err != nil {
		return 0, nil, nil, err
	}
	s.queue, s.bytes = append(s.queue, q), s.bytes+q.size
	return number, sync, nil, nil
}

// await waits until a message is durable, and then lets it be sent. A message must not be sent
// before: if a crash lost it, its number would be given to another one.
func (s *Sender) await(number uint64, sync func() error) error {
	err := sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fail(fmt.Errorf("keep message: %w", err))
		return fmt.Errorf("send message: %w", s.err)
	}
	s.durable = max(s.durable, number)
	s.notify()
	return nil
}

// sizeOf returns about how much memory a message takes.
func sizeOf(m *Message) int {
	size := 200 + len(m.Key) + len(m.ContentType) + len(m.Body) + 8*len(m.Parents)
	for name, value := range m.Headers {
		size += len(name) + len(value)
	}
	for source := range m.DependsOn {
		size += len(source) + 8
	}
	return size
}

// notify wakes everybody who waits for a change. The caller holds the lock.
func (s *Sender) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// fail stops the sender for good. The caller holds the lock.
func (s *Sender) fail(err error) {
	if s.err == nil {
		s.err = err
		s.notify()
	}
}

// Pending returns how many messages are not acknowledged.
func (s *Sender) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Last returns the number of the last message that Send has kept, 0 if there is none. With a
// folder, earlier processes count too: a program that repeats its work after a crash knows from it
// which of its messages are kept already.
func (s *Sender) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first + uint64(len(s.queue)) - 1
}

// Unacknowledged returns the messages that are not acknowledged, with their numbers. The server may
// have accepted some of them. It is for a sender that has stopped.
func (s *Sender) Unacknowledged() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Message, 0, len(s.queue))
	for _, q := range s.queue {
		if !q.acknowledged {
			m := q.message
			m.Epoch = s.epoch
			list = append(list, m)
		}
	}
	return list
}

// Flush waits until every message that was sent before the call is acknowledged. It returns the
// problem that has stopped the sender, or the context's error together with the reason of the last
// failure, if there was one.
func (s *Sender) Flush(ctx context.Context) error {
	s.mu.Lock()
	end := s.first + uint64(len(s.queue))
	s.mu.Unlock()
	for {
		s.mu.Lock()
		first, err, trouble, changed := s.first, s.err, s.trouble, s.changed
		s.mu.Unlock()
		switch {
		case first >= end:
			return nil
		case err != nil:
			return fmt.Errorf("flush sender: %w", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("flush sender: %d messages are not acknowledged: %w", end-first, errors.Join(context.Cause(ctx), trouble))
		}
	}
}

// Close lets no further message in, waits as Flush does, and then ends the sender and closes the
// folder, also if it returns an error. Messages that are not acknowledged then stay in the folder.
func (s *Sender) Close(ctx context.Context) error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.notify()
	s.mu.Unlock()
	if again {
		<-s.stopped
		return nil
	}
	err := s.Flush(ctx)
	s.stop()
	<-s.stopped
	if closed := s.spool.Close(); err == nil && closed != nil {
		err = fmt.Errorf("close sender: %w", closed)
	}
	return err
}
