package main

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// work is the worker. Its arguments are the URLs of the database and of the once server.
func work(ctx context.Context, args []string) error {
	p := place{args[0], args[1]}
	db, err := stdsql.Open("pgx", p.database)
	if err != nil {
		return err
	}
	subscriber, err := newSubscriber(db, p)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router.AddConsumerHandler("counter", topic, subscriber, count)
	fmt.Println("ready")
	return router.Run(ctx)
}

// count raises the counter that a message names. As in the original it reads the value first: two
// handlers of one message would otherwise not be noticed if they overlap.
func count(m *message.Message) error {
	tx, err := transactionOf(m)
	if err != nil {
		return err
	}
	var v visit
	if err := json.Unmarshal(m.Payload, &v); err != nil {
		return err
	}
	value, err := tx.get(m.Context(), "SELECT value FROM counter WHERE id = $1", v.Counter)
	if err != nil {
		return err
	}
	return tx.set(m.Context(), "INSERT INTO counter VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET value = excluded.value", v.Counter, value+1)
}
