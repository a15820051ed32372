package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
	"github.com/effectively-once/once/embedded"
	oncemill "github.com/effectively-once/once/watermill"
)

// Names of the systems.
const (
	nameSQL  = "watermill-sql"
	nameOnce = "once"
)

func names() []string { return []string{nameSQL, nameOnce} }

func describe(name string) string {
	if name == nameOnce {
		return "`once`, package watermill"
	}
	return "Watermill, SQL Pub/Sub"
}

const (
	topic = "counter"
	pause = 10 * time.Millisecond // between tries
)

// A place says where the parts of a trial are: the URLs of the database and of the once server,
// which is empty for the SQL Pub/Sub.
type place struct{ database, server string }

// newPublisher returns the publisher of the web server.
func newPublisher(db *stdsql.DB, p place) (message.Publisher, error) {
	if p.server == "" {
		return sql.NewPublisher(sql.BeginnerFromStdSQL(db), sql.PublisherConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{}}, watermill.NopLogger{})
	}
	c, err := newClient(p.server)
	if err != nil {
		return nil, err
	}
	return oncemill.NewPublisher(c, oncemill.PublisherConfig{Timeout: 5 * time.Second})
}

// newSubscriber returns the subscriber of the worker.
func newSubscriber(db *stdsql.DB, p place) (message.Subscriber, error) {
	if p.server == "" {
		return sql.NewSubscriber(sql.BeginnerFromStdSQL(db), sql.SubscriberConfig{
			ConsumerGroup: "worker", PollInterval: pause, ResendInterval: pause, RetryInterval: pause,
			SchemaAdapter: sql.DefaultPostgreSQLSchema{}, OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
		}, watermill.NopLogger{})
	}
	c, err := newClient(p.server)
	if err != nil {
		return nil, err
	}
	return oncemill.NewSubscriber(c, oncemill.SubscriberConfig{
		ConsumerGroup: "worker", Holder: "worker", Take: client.TakeMine, RetryPause: pause,
		Database: &sqlcursor.Table{DB: db, Dialect: sqlcursor.PostgreSQL},
	})
}

func newClient(url string) (*client.Client, error) {
	return client.New(url, client.Options{MinBackoff: pause, MaxBackoff: 10 * pause})
}

// A transaction is the part of one that the handler uses.
type transaction interface {
	set(ctx context.Context, query string, args ...any) error
	get(ctx context.Context, query string, args ...any) (int, error)
}

// transactionOf returns the transaction of a message.
func transactionOf(m *message.Message) (transaction, error) {
	if tx, ok := oncemill.TxFromContext(m.Context()); ok {
		return onceTx{tx}, nil
	}
	if tx, ok := sql.TxFromContext(m.Context()); ok {
		return sqlTx{tx}, nil
	}
	return nil, errors.New("the message has no transaction")
}

type onceTx struct{ *stdsql.Tx }

func (t onceTx) set(ctx context.Context, query string, args ...any) error {
	_, err := t.ExecContext(ctx, query, args...)
	return err
}

func (t onceTx) get(ctx context.Context, query string, args ...any) (n int, err error) {
	if err = t.QueryRowContext(ctx, query, args...).Scan(&n); errors.Is(err, stdsql.ErrNoRows) {
		err = nil
	}
	return n, err
}

type sqlTx struct{ sql.Tx }

func (t sqlTx) set(ctx context.Context, query string, args ...any) error {
	_, err := t.ExecContext(ctx, query, args...)
	return err
}

func (t sqlTx) get(ctx context.Context, query string, args ...any) (n int, err error) {
	rows, err := t.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	if rows.Next() {
		err = rows.Scan(&n)
	}
	return n, errors.Join(err, rows.Close())
}

// serve is the once server in a folder, at an address.
func serve(ctx context.Context, args []string) error {
	configuration := "streams: {" + topic + ": {pool: {}}}"
	sys, err := embedded.Open(args[0], embedded.Options{Config: configuration, Listen: args[1], Ready: func(a string) { fmt.Println(a) }})
	if err != nil {
		return err
	}
	return errors.Join(sys.Run(ctx), sys.Close())
}

// prepare creates the tables.
func prepare(ctx context.Context, db *stdsql.DB, p place) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE counter (id TEXT PRIMARY KEY, value INTEGER NOT NULL)")
	if err != nil {
		return err
	}
	if p.server != "" {
		_, err := db.ExecContext(ctx, sqlcursor.PostgreSQL.CreateTable(sqlcursor.DefaultTable))
		return err
	}
	s, err := newSubscriber(db, p)
	if err != nil {
		return err
	}
	initializer, ok := s.(message.SubscribeInitializer)
	if !ok {
		return errors.New("the subscriber makes no tables")
	}
	return errors.Join(initializer.SubscribeInitialize(topic), s.Close())
}
