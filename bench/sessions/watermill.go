package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

const postgresVariable = "POSTGRES_URL"

// A watermillPeer keeps its messages in a database of its own on the server that POSTGRES_URL names.
type watermillPeer struct {
	place
	consumer  string
	db        *stdsql.DB
	url       string
	publisher *sql.Publisher
}

func (p *watermillPeer) open(ctx context.Context, in place) (err error) {
	p.place = in
	server := os.Getenv(postgresVariable)
	if server == "" {
		return fmt.Errorf("%s is not set: localstack/postgres.sh run", postgresVariable)
	}
	admin, err := stdsql.Open("pgx", server)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.ExecContext(ctx, fmt.Sprintf("CREATE DATABASE %q", p.name)); err != nil {
		return err
	}
	at, err := url.Parse(server)
	if err != nil {
		return err
	}
	at.Path = "/" + p.name
	p.url = at.String()
	if p.db, err = stdsql.Open("pgx", p.url); err != nil {
		return err
	}
	if _, err := p.db.ExecContext(ctx, columns); err != nil {
		return err
	}
	p.publisher, err = sql.NewPublisher(sql.BeginnerFromStdSQL(p.db), sql.PublisherConfig{SchemaAdapter: schema(), AutoInitializeSchema: true}, nil)
	if err != nil {
		return err
	}
	s, err := subscriber(p.db)
	if err != nil {
		return err
	}
	return errors.Join(s.SubscribeInitialize("work"), s.Close())
}

func schema() sql.DefaultPostgreSQLSchema {
	return sql.DefaultPostgreSQLSchema{SubscribeBatchSize: batch, GeneratePayloadType: func(string) string { return "BYTEA" }}
}

func subscriber(db *stdsql.DB) (*sql.Subscriber, error) {
	deadline := lease
	return sql.NewSubscriber(sql.BeginnerFromStdSQL(db), sql.SubscriberConfig{
		ConsumerGroup: "workers", AckDeadline: &deadline, PollInterval: 10 * time.Millisecond, ResendInterval: 10 * time.Millisecond,
		RetryInterval: 10 * time.Millisecond, SchemaAdapter: schema(), OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}, InitializeSchema: true,
	}, watermill.NopLogger{})
}

// send publishes each message once: a message whose publishing has failed is looked for first.
func (p *watermillPeer) send(ctx context.Context, ids []string) error {
	for _, id := range ids {
		for p.publisher.Publish("work", message.NewMessage(id, []byte(id))) != nil {
			known := 0
			for p.db.QueryRowContext(ctx, `SELECT count(*) FROM "watermill_work" WHERE uuid = $1`, id).Scan(&known) != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				time.Sleep(10 * time.Millisecond)
			}
			if known > 0 {
				break
			}
		}
	}
	return nil
}

func (p *watermillPeer) command(int, int, bool) []string {
	return []string{p.consumer, p.url, p.file()}
}

// crash kills PostgreSQL and starts it again.
func (p *watermillPeer) crash(ctx context.Context) (bool, error) {
	text, err := exec.CommandContext(ctx, "sh", "-c", os.Getenv("POSTGRES_KILL")).CombinedOutput() //nolint:gosec // the command of localstack/postgres.sh
	if err != nil {
		return false, fmt.Errorf("kill PostgreSQL: %w: %s", err, text)
	}
	return true, nil
}

// rows opens the table: in the database of the messages if the rows are in its transaction.
func (p *watermillPeer) rows() (*stdsql.DB, error) {
	if p.consumer == nameWatermillTx {
		return stdsql.Open("pgx", p.url)
	}
	return openRows(p.file())
}

func (p *watermillPeer) close() {
	if p.db != nil {
		_ = p.db.Close()
	}
}

// consumeWatermill inserts the row in a transaction of its own.
func consumeWatermill(ctx context.Context, args []string) error {
	db, err := openRows(args[1])
	if err != nil {
		return err
	}
	return subscribe(ctx, args[0], func(m *message.Message) error {
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // no effect after the commit
		if err := insert(context.Background(), tx, []string{string(m.Payload)}); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// consumeWatermillTx inserts the row in the subscriber's transaction.
func consumeWatermillTx(ctx context.Context, args []string) error {
	return subscribe(ctx, args[0], func(m *message.Message) error {
		tx, ok := sql.TxFromContext(m.Context())
		if !ok {
			return errors.New("the message has no transaction")
		}
		_, err := tx.ExecContext(m.Context(), "INSERT INTO rows VALUES ($1)", string(m.Payload))
		return err
	})
}

// subscribe handles messages one by one, as the subscriber gives them.
func subscribe(ctx context.Context, url string, handle func(*message.Message) error) error {
	db, err := stdsql.Open("pgx", url)
	if err != nil {
		return err
	}
	s, err := subscriber(db)
	if err != nil {
		return err
	}
	messages, err := s.Subscribe(context.Background(), "work")
	for err != nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond) // the server is restarting
		messages, err = s.Subscribe(context.Background(), "work")
	}
	fmt.Println("ready")
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			time.Sleep(effort / batch)
			if err := handle(m); err != nil {
				m.Nack()
				continue
			}
			m.Ack()
		}
	}
}
