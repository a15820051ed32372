package watermill_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
	"github.com/effectively-once/once/watermill"
)

func ExamplePublisher() {
	c, err := client.New("http://127.0.0.1:8080", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := watermill.NewPublisher(c, watermill.PublisherConfig{})
	if err != nil {
		log.Fatal(err)
	}
	// The UUID is the key: however often this is repeated, there is one message.
	if err := publisher.Publish("orders", message.NewMessage("order-1", []byte(`{"item":7}`))); err != nil {
		log.Fatal(err)
	}
}

func ExampleSubscriber() {
	c, err := client.New("http://127.0.0.1:8080", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	subscriber, err := watermill.NewSubscriber(c, watermill.SubscriberConfig{
		ConsumerGroup: "stock",
		Database:      &sqlcursor.Table{DB: db, Dialect: sqlcursor.PostgreSQL},
	})
	if err != nil {
		log.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	router.AddConsumerHandler("stock", "orders", subscriber, func(m *message.Message) error {
		tx, ok := watermill.TxFromContext(m.Context())
		if !ok {
			return errors.New("the subscriber has no database")
		}
		// This row and the position of the subscriber are one transaction.
		_, err := tx.ExecContext(m.Context(), "INSERT INTO reservations (order_id) VALUES ($1)", m.UUID)
		return err
	})
	if err := router.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
