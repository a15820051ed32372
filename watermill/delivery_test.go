package watermill

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
)

func entries(n int) (list []client.Entry) {
	for i := range n {
		list = append(list, client.Entry{Number: uint64(i + 1), Kind: "message", ID: fmt.Sprint(i + 1)})
	}
	return list
}

func TestAMessageOfARedrivenDeadLetterHasTheKeyThatItHadBefore(t *testing.T) {
	if m := messageOf(&client.Entry{ID: "dead/0/1", RedeliveryOf: "order-1"}); m.UUID != "order-1" {
		t.Error(m.UUID)
	}
}

// The message is acknowledged while the subscriber is closed.
func TestAnAcknowledgedMessageIsDoneAlthoughTheSubscriberIsClosed(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		m := messageOf(&entries(1)[0])
		m.Ack()
		cancel()
		if err := await(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfABatchTheAcknowledgedMessagesCount(t *testing.T) {
	for name, refuse := range map[string]func(m *message.Message, stop func()){
		"the third is refused":         func(m *message.Message, _ func()) { m.Nack() },
		"the subscriber is closed":     func(_ *message.Message, stop func()) { stop() },
		"all of them are acknowledged": nil,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := make(chan *message.Message)
			go func() {
				for n := 1; ; n++ {
					select {
					case m := <-out:
						if n == 3 && refuse != nil {
							refuse(m, cancel)
							return
						}
						m.Ack()
					case <-t.Context().Done():
						return
					}
				}
			}()
			b := client.Batch{To: 5, Entries: entries(5)}
			err := (&delivery{out: out}).Do(ctx, &b)
			tried, failed := errors.AsType[*client.TryError](err)
			switch name {
			case "the third is refused":
				if !failed || tried.Number != 3 {
					t.Errorf("got %v", err)
				}
			case "the subscriber is closed":
				if err != nil || b.To != 2 {
					t.Errorf("up to %d: %v", b.To, err)
				}
			default:
				if err != nil || b.To != 5 {
					t.Errorf("up to %d: %v", b.To, err)
				}
			}
		})
	}
}

func TestTextThatWouldNotComeOutAsItWentInIsRefused(t *testing.T) {
	for _, m := range []*message.Message{message.NewMessage("a\xff", nil), message.NewMessage("a", nil)} {
		if m.UUID == "a" {
			m.Metadata.Set("k\xff", "v")
		}
		if headers, err := headersOf(m); err == nil {
			t.Errorf("%q: %v", m.UUID, headers)
		}
	}
}
