package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/clock"
)

func lobby() client.SenderOptions {
	return client.SenderOptions{Stream: "room", Group: "lobby", Source: "ann"}
}

func newSender(t *testing.T, b *backend, o client.SenderOptions) *client.Sender {
	t.Helper()
	s, err := b.client().Sender(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func text(n int) client.Message {
	return client.Message{ContentType: "text/plain", Body: fmt.Append(nil, n)}
}

// say sends messages from, from+1, … up to before end.
func say(t *testing.T, s *client.Sender, from, end int) (want []string) {
	t.Helper()
	for n := from; n < end; n++ {
		if _, err := s.Send(t.Context(), text(n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range end {
		want = append(want, fmt.Sprint(n))
	}
	return want
}

func closed(t *testing.T, s *client.Sender) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := s.Pending(); n != 0 {
		t.Errorf("%d messages are pending", n)
	}
}

func TestASenderSendsEachMessageOnceAndInOrderWhateverFails(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			b := newBackend(t)
			random, pauses := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1)) // of two goroutines
			b.set(func(int) fault {
				if random.IntN(2) == 0 {
					return fault(random.IntN(5))
				}
				return none
			})
			s := newSender(t, b, lobby())
			for n := range 30 {
				say(t, s, n, n+1)
				time.Sleep(time.Duration(pauses.IntN(200)) * time.Millisecond)
			}
			b.set(func(int) fault { return none })
			closed(t, s)
			if diff := cmp.Diff(say(t, nil, 30, 30), b.bodies()); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		})
	}
}

func TestASenderThatIsOfflineKeepsMessagesAndSendsThemInFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		b.set(func(int) fault { return lost })
		s := newSender(t, b, lobby())
		want := say(t, s, 0, 1500)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := s.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || s.Pending() != 1500 {
			t.Errorf("%v, %d messages are pending", err, s.Pending())
		}
		tried := b.sent()
		b.set(func(int) fault { return none })
		closed(t, s)
		if diff := cmp.Diff(want, b.bodies()); diff != "" {
			t.Error(diff)
		}
		if tried > 15 { // 100 ms, doubled up to 10 s
			t.Errorf("%d tries in 30 s", tried)
		}
	})
}

func TestASenderBeyondItsBoundsFailsOrWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, bound := range map[string]func(*client.SenderOptions){
			"messages": func(o *client.SenderOptions) { o.MaxMessages = 3 },
			"bytes":    func(o *client.SenderOptions) { o.MaxBytes = 3 * 250 },
		} {
			b := newBackend(t)
			b.set(func(int) fault { return lost })
			o := lobby()
			o.WhenFull = client.Fail
			bound(&o)
			s := newSender(t, b, o)
			say(t, s, 0, 3)
			if _, err := s.Send(t.Context(), text(3)); !errors.Is(err, client.ErrFull) {
				t.Errorf("%s: %v", name, err)
			}
			b.set(func(int) fault { return none })
			closed(t, s)

			b.set(func(int) fault { return lost })
			o.WhenFull, o.Source = client.Wait, "bob"
			s = newSender(t, b, o)
			say(t, s, 0, 3)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := s.Send(ctx, text(3)); !errors.Is(err, client.ErrFull) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
			time.AfterFunc(time.Minute, func() { b.set(func(int) fault { return none }) })
			begun := time.Now()
			if n, err := s.Send(t.Context(), text(3)); err != nil || n != 4 || time.Since(begun) < time.Minute {
				t.Errorf("%s: number %d after %v: %v", name, n, time.Since(begun), err)
			}
			closed(t, s)
			if diff := cmp.Diff([]string{"0", "1", "2", "0", "1", "2", "3"}, b.bodies()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

func TestASenderIsStoppedByANewerOneOfItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		old := newSender(t, b, lobby())
		say(t, old, 0, 2)
		if err := old.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		young := newSender(t, b, lobby())
		say(t, young, 2, 3)
		if err := young.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		say(t, old, 3, 4)
		if err := old.Flush(t.Context()); !errors.Is(err, client.Fenced) {
			t.Errorf("flush: %v", err)
		}
		if _, err := old.Send(t.Context(), text(4)); !errors.Is(err, client.Fenced) {
			t.Errorf("send: %v", err)
		}
		if left := old.Unacknowledged(); len(left) != 1 || string(left[0].Body) != "3" || left[0].Sequence != 3 || left[0].Epoch == 0 {
			t.Errorf("left: %+v", left)
		}
		if err := old.Close(t.Context()); !errors.Is(err, client.Fenced) {
			t.Errorf("close: %v", err)
		}
		closed(t, young)
		if diff := cmp.Diff([]string{"0", "1", "2"}, b.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARefusedMessageIsReportedAndHoldsUpNothing(t *testing.T) {
	for name, lostFirst := range map[string]bool{"in its first try": false, "after a lost answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBackend(t)
				if lostFirst {
					b.set(func(n int) fault { return map[int]fault{1: unanswered}[n] })
				}
				var reports []string
				o := lobby()
				o.Refused = func(m client.Message, p *client.Problem) client.Message {
					reports = append(reports, fmt.Sprintf("%s %d %s %v", m.Body, m.Sequence, p.Type, p.Ambiguous))
					return client.Message{Body: []byte("instead of " + string(m.Body))}
				}
				s := newSender(t, b, o)
				ahead := text(0) // the first request has the first message, and not always more
				ahead.Seen = clock.HybridAt(time.Now().Add(time.Hour))
				for _, m := range []client.Message{ahead, text(1), text(2)} {
					if _, err := s.Send(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
				closed(t, s)
				if diff := cmp.Diff([]string{"instead of 0", "1", "2"}, b.bodies()); diff != "" {
					t.Error(diff)
				}
				if want := fmt.Sprintf("[0 1 invalid-message %v]", lostFirst); fmt.Sprint(reports) != want {
					t.Error(reports, want)
				}
			})
		})
	}
}

// isRepeated checks that requests that meet faults, by their number, are sent again, at least so many
// in all, and that none of their messages is refused.
func isRepeated(t *testing.T, faults map[int]fault, requests int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), lobby()
		b.set(func(n int) fault { return faults[n] })
		o.Refused = func(m client.Message, p *client.Problem) client.Message {
			t.Error(m.Sequence, p)
			return m
		}
		s := newSender(t, b, o)
		want := say(t, s, 0, 3)
		closed(t, s)
		if diff := cmp.Diff(want, b.bodies()); diff != "" {
			t.Error(diff)
		}
		if b.sent() < requests {
			t.Errorf("%d requests, want %d or more: the faults were not met", b.sent(), requests)
		}
	})
}

func TestARequestWhoseBodyEndedEarlyIsSentAgain(t *testing.T) {
	isRepeated(t, map[int]fault{1: torn, 2: torn}, 3)
}

func TestALineForWhichTheSenderHasNoRightIsSentAgainAndNotRefused(t *testing.T) {
	isRepeated(t, map[int]fault{1: forbidden, 2: unauthorized}, 4)
}

func TestARefusedMessageWithoutACallbackLeavesAnEmptyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		s := newSender(t, b, lobby())
		ahead := text(0)
		ahead.Seen = clock.HybridAt(time.Now().Add(time.Hour))
		if _, err := s.Send(t.Context(), ahead); err != nil {
			t.Fatal(err)
		}
		closed(t, s)
		e, err := b.client().Tail("room", "lobby", client.TailOptions{NoFollow: true}).Next(t.Context())
		if err != nil || len(e.Body) != 0 || e.Headers["X-Once-Refused"] != "invalid-message" {
			t.Errorf("%+v %v", e, err)
		}
	})
}

// A sender that may not send now keeps its messages: its rights may be restored.
func TestAProblemOfTheWholeSenderKeepsItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		o := lobby()
		o.Stream = "elsewhere"
		s := newSender(t, b, o)
		say(t, s, 0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); !errors.Is(err, client.UnknownStream) || !errors.Is(err, context.DeadlineExceeded) || s.Pending() != 1 {
			t.Errorf("%v, %d pending", err, s.Pending())
		}
	})
}

func TestASenderStopsIfItsStreamIsNotNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := lobby()
		o.Stream = "keys"
		s := newSender(t, newBackend(t), o)
		say(t, s, 0, 1)
		if err := s.Close(t.Context()); !errors.Is(err, client.InvalidMessage) {
			t.Error(err)
		}
	})
}

func TestAnInvalidMessageTakesNoNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		s := newSender(t, b, lobby())
		for name, m := range map[string]client.Message{
			"body": {Body: make([]byte, 256<<10+1)}, "headers": {Headers: map[string]string{"X-A": strings.Repeat("a", 16<<10)}},
			"parents": {Parents: make([]uint64, 101)}, "key": {Key: "ä"},
		} {
			if _, err := s.Send(t.Context(), m); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n, err := s.Send(t.Context(), text(0)); n != 1 || err != nil {
			t.Error(n, err)
		}
		closed(t, s)
		if _, err := s.Send(t.Context(), text(1)); !errors.Is(err, client.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestASenderWithWrongOptionsIsNotMade(t *testing.T) {
	c, _ := newClient(t, client.Options{})
	for _, o := range []client.SenderOptions{{}, {Stream: "room"}, {Source: "ann"}, {Stream: "room", Source: "ann", WhenFull: "explode"}} {
		if _, err := c.Sender(o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
