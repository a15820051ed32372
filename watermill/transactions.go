package watermill

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

// transactions is a client.Worker that passes entries on to a channel, each batch in a
// transaction that is committed, with the cursor, when its messages are acknowledged.
type transactions struct {
	out    chan<- *message.Message
	table  sqlcursor.Table
	cursor *sqlcursor.Cursor
}

// Begin raises the fence in the database, and returns its number.
func (t *transactions) Begin(ctx context.Context, o client.Opened) (number uint64, err error) {
	if t.cursor, err = t.table.Open(ctx, o); err != nil {
		return 0, fmt.Errorf("begin session: %w", err)
	}
	return t.cursor.Number(), nil
}

// Do delivers the entries of a batch in one transaction.
func (t *transactions) Do(ctx context.Context, b *client.Batch) error {
	return t.cursor.Do(ctx, b.To, func(tx *sql.Tx) error {
		ctx := context.WithValue(ctx, txKey{}, tx)
		for i := range b.Entries {
			if err := deliver(ctx, t.out, &b.Entries[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// End does nothing.
func (t *transactions) End() error { return nil }

type txKey struct{}

// TxFromContext returns the transaction of a message, from the context of the message. The
// handler uses it for all that it writes to the database, and neither commits it nor rolls it
// back: the subscriber commits it after Ack, and rolls it back after Nack. ok is false if the
// subscriber has no [SubscriberConfig.Database].
func TxFromContext(ctx context.Context) (tx *sql.Tx, ok bool) {
	tx, ok = ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}
