package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/effectively-once/once/bench/child"
)

// serveNATS is a NATS server with JetStream in a folder, at a port; 0 takes a free one.
func serveNATS(ctx context.Context, args []string) error {
	port, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: args[0], SyncAlways: len(args) > 2, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the NATS server does not start")
	}
	fmt.Println(s.ClientURL())
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

type natsPeer struct {
	place
	server *child.Process
	conn   *nats.Conn
	stream jetstream.JetStream
}

func (p *natsPeer) open(ctx context.Context, in place) (err error) {
	p.place = in
	if p.server, err = child.Start(ctx, p.self, "nats", filepath.Join(p.dir, "nats"), "0"); err != nil {
		return err
	}
	if p.conn, p.stream, err = dialNATS(p.server.Line); err != nil {
		return err
	}
	s, err := p.stream.CreateStream(ctx, jetstream.StreamConfig{Name: "work", Subjects: []string{"work"}, Storage: jetstream.FileStorage})
	if err != nil {
		return err
	}
	_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: lease, MaxAckPending: 10_000})
	return err
}

func dialNATS(url string) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	stream, err := jetstream.New(conn)
	return conn, stream, err
}

// send publishes with message ids, by which the server drops duplicates.
func (p *natsPeer) send(ctx context.Context, ids []string) error {
	for _, id := range ids {
		for {
			try, cancel := context.WithTimeout(ctx, lease)
			_, err := p.stream.Publish(try, "work", []byte(id), jetstream.WithMsgID(id))
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			time.Sleep(10 * time.Millisecond) // the server may be killed just now
		}
	}
	return nil
}

func (p *natsPeer) command(int, int, bool) []string {
	return []string{nameJetStream, p.server.Line, p.file()}
}

func (p *natsPeer) crash(ctx context.Context) (bool, error) {
	address, err := url.Parse(p.server.Line)
	if err != nil {
		return false, err
	}
	p.server.Kill()
	p.server, err = child.Start(ctx, p.self, "nats", filepath.Join(p.dir, "nats"), address.Port())
	return true, err
}

func (p *natsPeer) rows() (*sql.DB, error) { return openRows(p.file()) }

func (p *natsPeer) close() {
	if p.conn != nil {
		p.conn.Close()
	}
	if p.server != nil {
		p.server.Kill()
	}
}

// consumeJetStream fetches batches, works, and acknowledges each message, waiting for the server to
// confirm that.
func consumeJetStream(ctx context.Context, args []string) error {
	db, err := openRows(args[1])
	if err != nil {
		return err
	}
	conn, stream, err := dialNATS(args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println("ready")
	var c jetstream.Consumer
	for ctx.Err() == nil {
		if c == nil {
			if c, err = stream.Consumer(ctx, "work", "workers"); err != nil {
				c = nil
				time.Sleep(10 * time.Millisecond) // the server may be killed just now
				continue
			}
		}
		messages, err := c.Fetch(batch, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			time.Sleep(10 * time.Millisecond) // the server is restarting
			continue
		}
		if err := handleJetStream(db, messages); err != nil {
			return err
		}
	}
	return nil
}

func handleJetStream(db *sql.DB, messages jetstream.MessageBatch) error {
	var ids []string
	var got []jetstream.Msg
	for m := range messages.Messages() {
		ids, got = append(ids, string(m.Data())), append(got, m)
	}
	if len(got) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := work(context.Background(), db, ids); err != nil {
		return err
	}
	for _, m := range got {
		for m.DoubleAck(ctx) != nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}
