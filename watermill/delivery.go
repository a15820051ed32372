package watermill

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
)

// errNack is the failure of a message that was negatively acknowledged.
var errNack = errors.New("the message was negatively acknowledged")

// A delivery is a client.Worker that passes entries on to a channel. The cursor is the server's.
type delivery struct{ out chan<- *message.Message }

// Begin returns the server's cursor.
func (*delivery) Begin(_ context.Context, o client.Opened) (uint64, error) { return o.Cursor, nil }

// Do delivers the entries of a batch. If it can't deliver all, those that were acknowledged count.
func (d *delivery) Do(ctx context.Context, b *client.Batch) error {
	for i := range b.Entries {
		e := &b.Entries[i]
		err := deliver(ctx, d.out, e)
		switch {
		case err == nil:
		case errors.Is(err, errNack):
			return &client.TryError{Number: e.Number, Err: err}
		case i > 0:
			b.To = b.Entries[i-1].Number
			return nil
		default:
			return err
		}
	}
	return nil
}

// End does nothing.
func (*delivery) End() error { return nil }

// deliver passes an entry on, and waits until it is acknowledged.
func deliver(ctx context.Context, out chan<- *message.Message, e *client.Entry) error {
	if e.Kind != "message" {
		return nil
	}
	m := messageOf(e)
	ctx, cancel := context.WithCancel(context.WithValue(ctx, entryKey{}, *e))
	defer cancel()
	m.SetContext(ctx)
	select {
	case out <- m:
	case <-ctx.Done():
		return fmt.Errorf("deliver message: %w", context.Cause(ctx))
	}
	return await(ctx, m)
}

// await waits until a message is acknowledged.
func await(ctx context.Context, m *message.Message) error {
	select {
	case <-m.Acked():
		return nil
	case <-m.Nacked():
		return errNack
	case <-ctx.Done():
	}
	select {
	case <-m.Acked(): // at the same time: the handler has done its work
		return nil
	default:
		return fmt.Errorf("await acknowledgement: %w", context.Cause(ctx))
	}
}

type entryKey struct{}

// EntryFromContext returns the entry that a message was made from: its number, time, source and
// headers. ctx is the context of the message. ok is false if the message is not from a
// [Subscriber].
func EntryFromContext(ctx context.Context) (e client.Entry, ok bool) {
	e, ok = ctx.Value(entryKey{}).(client.Entry)
	return e, ok
}
