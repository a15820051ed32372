package client

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A slowSpool waits for the test before a message is durable.
type slowSpool struct {
	inMemory
	durable chan error
}

func (s slowSpool) Append(Message) (func() error, error) {
	return func() error { return <-s.durable }, nil
}

type counter struct{ requests atomic.Int64 }

func (c *counter) RoundTrip(*http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return nil, errors.New("connection cut")
}

// If a crash lost a message that was sent, its number would be given to another one.
func TestAMessageIsNotSentBeforeItIsDurable(t *testing.T) {
	for name, synced := range map[string]error{"": nil, "after a failure": errors.New("disk fails")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, disk := &counter{}, make(chan error)
				c, err := New("http://once.test", Options{HTTP: &http.Client{Transport: server}})
				if err != nil {
					t.Fatal(err)
				}
				s, err := c.Sender(SenderOptions{Stream: "room", Source: "ann"})
				if err != nil {
					t.Fatal(err)
				}
				s.locked(func() { s.spool = slowSpool{durable: disk} })
				sent := make(chan error)
				go func() {
					_, err := s.Send(t.Context(), Message{})
					sent <- err
				}()
				time.Sleep(time.Minute)
				s.locked(s.notify) // the sender looks, whether it began before the message came or after
				synctest.Wait()
				if n := server.requests.Load(); n != 0 {
					t.Errorf("%d requests before the message was durable", n)
				}
				disk <- synced
				if err := <-sent; !errors.Is(err, synced) {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if tried := server.requests.Load() > 0; tried != (synced == nil) {
					t.Errorf("sent: %v", tried)
				}
				s.stop()
				<-s.stopped
			})
		})
	}
}
