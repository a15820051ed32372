package watermill_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/google/uuid"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
	"github.com/effectively-once/once/watermill"
)

// serve runs an embedded system on a folder and returns a client for it.
func serve(t *testing.T, config string) *client.Client {
	t.Helper()
	address := make(chan string, 1)
	sys, err := embedded.Open(filepath.Join(t.TempDir(), "data"), embedded.Options{
		Config: config, Listen: "127.0.0.1:0", Ready: func(a string) { address <- a },
	})
	if err != nil {
		t.Fatal(err)
	}
	// t.Context ends before the clean-ups run: subscribers could not release their sessions, and
	// would try for ten seconds.
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case err := <-ended:
		ended <- nil
		t.Fatal("run has ended: ", err)
	case a := <-address:
		c, err := client.New("http://"+a, client.Options{MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return nil
}

const logs = "streams: {events: {log: {retain: 1h}}}"

// construct returns a constructor of publishers and subscribers of a consumer group.
func construct(c *client.Client, commitEvery int) tests.ConsumerGroupPubSubConstructor {
	return func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		p, err := watermill.NewPublisher(c, watermill.PublisherConfig{Stream: "events"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := watermill.NewSubscriber(c, watermill.SubscriberConfig{
			Stream: "events", ConsumerGroup: group, CommitEvery: commitEvery, RetryPause: time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p, s
	}
}

func inGroup(f tests.ConsumerGroupPubSubConstructor) tests.PubSubConstructor {
	return func(t *testing.T) (message.Publisher, message.Subscriber) { return f(t, "test") }
}

var features = tests.Features{
	ConsumerGroups: true, GuaranteedOrder: true, Persistent: true, ForceShort: os.Getenv("WATERMILL_WHOLE") == "",
}

// The universal suite of Watermill. WATERMILL_WHOLE=1 runs its long form.
func TestSuitePasses(t *testing.T) {
	f := construct(serve(t, logs), 1)
	tests.TestPubSub(t, features, inGroup(f), f)
}

func TestSuitePassesWithExactlyOnceDelivery(t *testing.T) {
	f := construct(serve(t, logs), 1)
	exactly := features
	exactly.ExactlyOnceDelivery = true
	tests.TestPubSub(t, exactly, inGroup(f), f)
}

func TestSuitePassesWithCommitsOfManyMessages(t *testing.T) {
	f := construct(serve(t, logs), 100)
	tests.TestPubSub(t, features, inGroup(f), f)
}

func TestNewConsumerGroupsReceiveOldMessages(t *testing.T) {
	f := construct(serve(t, logs), 1)
	old := features
	old.NewSubscriberReceivesOldMessages = true
	tests.TestNewSubscriberReceivesOldMessages(t, tests.TestContext{TestID: tests.NewTestID(), Features: old},
		func(t *testing.T) (message.Publisher, message.Subscriber) { return f(t, uuid.NewString()) })
}
