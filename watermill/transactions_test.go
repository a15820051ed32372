package watermill_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	_ "modernc.org/sqlite"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/watermill"
)

// wait is how long a test waits for an event.
const wait = time.Minute

// database creates a database with a table rows and the table of cursors.
func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "work.db")+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{"CREATE TABLE rows (id TEXT)", sqlcursor.SQLite.CreateTable(sqlcursor.DefaultTable)} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func subscriber(t *testing.T, c *client.Client, config watermill.SubscriberConfig) *watermill.Subscriber {
	t.Helper()
	config.RetryPause = time.Millisecond
	s, err := watermill.NewSubscriber(c, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func publish(t *testing.T, c *client.Client, config watermill.PublisherConfig, topic string, n int) {
	t.Helper()
	p, err := watermill.NewPublisher(c, config)
	if err != nil {
		t.Fatal(err)
	}
	var list []*message.Message
	for i := range n {
		list = append(list, message.NewMessage(strconv.Itoa(i), []byte("x")))
	}
	if err := p.Publish(topic, list...); err != nil {
		t.Fatal(err)
	}
}

func subscribe(t *testing.T, s message.Subscriber, topic string) <-chan *message.Message {
	t.Helper()
	messages, err := s.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func receive(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, ok := <-messages:
		if ok {
			return m
		}
		t.Fatal("the channel is closed")
	case <-time.After(wait):
		t.Fatal("no message")
	}
	return nil
}

// insert writes a row for a message in its transaction.
func insert(m *message.Message) error {
	tx, ok := watermill.TxFromContext(m.Context())
	if !ok {
		return errors.New("the message has no transaction")
	}
	_, err := tx.ExecContext(m.Context(), "INSERT INTO rows VALUES (?)", m.UUID)
	return err
}

func count(t *testing.T, db *sql.DB) (rows, distinct int) {
	t.Helper()
	if err := db.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT count(*), count(DISTINCT id) FROM rows").Scan(&rows, &distinct); err != nil {
		t.Fatal(err)
	}
	return rows, distinct
}

// A subscriber is closed while a message is written and not acknowledged; another one takes over.
func TestEachMessageHasItsRowOnceAfterNackAndClose(t *testing.T) {
	const messages = 40
	for _, every := range []int{1, 7} {
		t.Run(strconv.Itoa(every), func(t *testing.T) {
			c, db := serve(t, logs), database(t)
			publish(t, c, watermill.PublisherConfig{Stream: "events"}, "orders", messages)
			config := watermill.SubscriberConfig{
				Stream: "events", ConsumerGroup: "rows", CommitEvery: every, Database: &sqlcursor.Table{DB: db, Dialect: sqlcursor.SQLite},
			}
			for received, rows := 0, 0; rows < messages/2; rows, _ = count(t, db) {
				s := subscriber(t, c, config)
				in := subscribe(t, s, "orders")
				for range 12 {
					m := receive(t, in)
					if err := insert(m); err != nil {
						t.Fatal(err)
					}
					if received++; received%5 == 0 {
						m.Nack()
					} else {
						m.Ack()
					}
				}
				if err := insert(receive(t, in)); err != nil { // neither Ack nor Nack
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			drain(t, c, config, db, messages)
		})
	}
}

// drain consumes until there are n rows, all of them different.
func drain(t *testing.T, c *client.Client, config watermill.SubscriberConfig, db *sql.DB, n int) {
	t.Helper()
	s := subscriber(t, c, config)
	in := subscribe(t, s, "orders")
	eventually.Succeeds(t, func() error {
		select {
		case m := <-in:
			if err := insert(m); err != nil {
				t.Fatal(err)
			}
			m.Ack()
		default: // the last commit may be under way
		}
		if rows, _ := count(t, db); rows < n {
			return fmt.Errorf("%d rows, want %d", rows, n)
		}
		return nil
	})
	if rows, distinct := count(t, db); rows != n || distinct != n {
		t.Errorf("%d rows, %d different ones; want %d", rows, distinct, n)
	}
}

// The universal suite, with a cursor in a database.
func TestSuitePassesWithTransactions(t *testing.T) {
	c := serve(t, logs)
	f := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		p, _ := construct(c, 1)(t, group)
		s, err := watermill.NewSubscriber(c, watermill.SubscriberConfig{
			Stream: "events", ConsumerGroup: group, RetryPause: time.Millisecond, Database: &sqlcursor.Table{DB: database(t), Dialect: sqlcursor.SQLite},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p, s
	}
	tests.TestPublishSubscribe(t, tests.TestContext{TestID: tests.NewTestID(), Features: features}, inGroup(f))
}

// Two subscribers of a pool share the messages.
func TestSubscribersOfAPoolShareItsMessages(t *testing.T) {
	const messages = 60
	c := serve(t, "streams: {jobs: {pool: {window: 1}}}")
	publish(t, c, watermill.PublisherConfig{}, "jobs", messages)
	var mu sync.Mutex
	seen, by := map[string]int{}, map[string]int{}
	all := make(chan struct{})
	for _, name := range []string{"a", "b"} {
		in := subscribe(t, subscriber(t, c, watermill.SubscriberConfig{ConsumerGroup: name}), "jobs")
		go func() {
			for m := range in {
				mu.Lock()
				seen[m.UUID]++
				by[name]++
				if len(seen) == messages && seen[m.UUID] == 1 {
					close(all)
				}
				mu.Unlock()
				m.Ack()
			}
		}()
	}
	select {
	case <-all:
	case <-time.After(wait):
		t.Fatal("not all messages were delivered")
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("message %s was delivered %d times", id, n)
		}
	}
	if by["a"] == 0 || by["b"] == 0 {
		t.Errorf("messages by subscriber: %v; want some for each", by)
	}
}

// Publish is repeated, as after a lost answer.
func TestAMessageIsPublishedOnceInEachTopic(t *testing.T) {
	c := serve(t, logs)
	config := watermill.PublisherConfig{Stream: "events"}
	for _, topic := range []string{"one", "two"} {
		publish(t, c, config, topic, 3)
		publish(t, c, config, topic, 4)
		in := subscribe(t, subscriber(t, c, watermill.SubscriberConfig{Stream: "events", ConsumerGroup: "g"}), topic)
		for i := range 4 {
			m := receive(t, in)
			if m.UUID != strconv.Itoa(i) {
				t.Errorf("topic %s: message %d has the UUID %q", topic, i, m.UUID)
			}
			m.Ack()
		}
	}
}

// Any UUID and any metadata come out as they went in.
func TestUUIDAndMetadataAreKept(t *testing.T) {
	c := serve(t, logs)
	p, err := watermill.NewPublisher(c, watermill.PublisherConfig{Stream: "events"})
	if err != nil {
		t.Fatal(err)
	}
	in := subscribe(t, subscriber(t, c, watermill.SubscriberConfig{Stream: "events", ConsumerGroup: "g"}), "t")
	for _, id := range []string{"", "plain", "ключ 🔑\n", string(make([]byte, 300))} {
		sent := message.NewMessage(id, []byte{0, 255})
		sent.Metadata = message.Metadata{"Case": "A", "case": "b", "X-Api-Token": "t", "é\n": "\u007f😀\"\\"}
		if err := p.Publish("t", sent); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, in); !got.Equals(sent) {
			t.Errorf("got %q %v %v, want %q %v %v", got.UUID, got.Metadata, got.Payload, sent.UUID, sent.Metadata, sent.Payload)
		} else {
			got.Ack()
		}
	}
}
