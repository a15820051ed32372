package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A jetStream is a NATS server in this process with one stream on disk, and its clients.
type jetStream struct {
	server    *server.Server
	publisher *nats.Conn
	consumer  *nats.Conn
	stream    jetstream.JetStream
	body      []byte
	ids       bool // each message has a Nats-Msg-Id, by which the server drops duplicates
}

// openJetStream returns a function that opens JetStream. With always, the server syncs each message
// before it acknowledges it; else it syncs every two minutes, its default. With ids, messages have
// a Nats-Msg-Id. With through, a message counts when a consumer has acknowledged it; else when the
// server has.
func openJetStream(always, ids, through bool, size int) func(context.Context, string) (*worker, error) {
	return func(ctx context.Context, dir string) (*worker, error) {
		j := &jetStream{body: make([]byte, size), ids: ids}
		if err := j.open(ctx, dir, always); err != nil {
			return nil, errors.Join(err, j.close())
		}
		w := &worker{run: j.publish, close: j.close}
		if !through {
			return w, nil
		}
		run, err := j.consume(ctx)
		w.run = run
		return w, err
	}
}

func (j *jetStream) open(ctx context.Context, dir string, always bool) (err error) {
	j.server, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, SyncAlways: always, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	go j.server.Start()
	if !j.server.ReadyForConnections(time.Minute) {
		return errors.New("the NATS server does not start")
	}
	var err1, err2 error
	j.publisher, err1 = nats.Connect(j.server.ClientURL())
	j.consumer, err2 = nats.Connect(j.server.ClientURL())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if j.stream, err = jetstream.New(j.publisher); err != nil {
		return err
	}
	_, err = j.stream.CreateStream(ctx, jetstream.StreamConfig{Name: "bench", Subjects: []string{"messages"}, Storage: jetstream.FileStorage})
	return err
}

// publish publishes from all callers, each of which waits for the server's acknowledgement.
func (j *jetStream) publish(ctx context.Context, d time.Duration) (load, error) {
	round := strconv.FormatInt(time.Now().UnixNano(), 36)
	return hammer(ctx, callers, d, func(ctx context.Context, caller int, i uint64) (int, error) {
		var options []jetstream.PublishOpt
		if j.ids {
			options = append(options, jetstream.WithMsgID(fmt.Sprintf("%s-%d-%d", round, caller, i)))
		}
		_, err := j.stream.Publish(ctx, "messages", j.body, options...)
		return 1, err
	})
}

// consume starts a consumer, and returns a run that ends when it has acknowledged all messages.
func (j *jetStream) consume(ctx context.Context) (func(context.Context, time.Duration) (load, error), error) {
	client, err := jetstream.New(j.consumer)
	if err != nil {
		return nil, err
	}
	c, err := client.CreateOrUpdateConsumer(ctx, "bench", jetstream.ConsumerConfig{Durable: "bench", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	acked, more := 0, sync.NewCond(&mu)
	if _, err := c.Consume(func(m jetstream.Msg) {
		if m.Ack() == nil {
			mu.Lock()
			defer mu.Unlock()
			acked++
			more.Signal()
		}
	}); err != nil {
		return nil, err
	}
	published := 0
	return func(ctx context.Context, d time.Duration) (load, error) {
		done, err := j.publish(ctx, d)
		published += done.messages
		mu.Lock()
		defer mu.Unlock()
		for err == nil && acked < published {
			more.Wait()
		}
		return done, errors.Join(err, j.consumer.Flush()) // the server has all acknowledgements
	}, nil
}

func (j *jetStream) close() error {
	for _, c := range []*nats.Conn{j.publisher, j.consumer} {
		if c != nil {
			c.Close()
		}
	}
	if j.server != nil {
		j.server.Shutdown()
		j.server.WaitForShutdown()
	}
	return nil
}
