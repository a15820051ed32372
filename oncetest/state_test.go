package oncetest_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

type account struct{ Cents int }

// deposit adds the number in the body, and answers with the balance.
func deposit(_ context.Context, a *once.Attempt[account], m once.Message) error {
	n, err := strconv.Atoi(string(m.Body))
	if err != nil {
		return err
	}
	a.State.Cents += n
	a.Reply(http.StatusOK, once.JSON(a.State.Cents))
	return nil
}

func TestAStateOutlivesYearsWithoutAMessage(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		config once.StreamConfig
		idle   time.Duration
		want   string
	}{
		"by default":             {once.StreamConfig{}, 1000 * day, "1000001"},
		"within its retention":   {once.StreamConfig{StateRetention: 90 * day}, 89 * day, "1000001"},
		"after its retention":    {once.StreamConfig{StateRetention: 90 * day}, 90 * day, "1"},
		"numbered, and for long": {once.StreamConfig{Admission: once.BySequence}, 1000 * day, "1000001"},
	} {
		t.Run(name, func(t *testing.T) {
			sys := oncetest.New()
			sys.Declare("accounts", c.config)
			once.Handle(sys.System, "accounts", deposit)
			send := func(n uint64, body string) string {
				m := once.Message{Stream: "accounts", Group: "alice", ID: strconv.FormatUint(n, 10), Body: []byte(body)}
				if c.config.Admission == once.BySequence {
					m.ID, m.Source, m.Sequence = "", "till", n
				}
				o := sys.Call(t.Context(), m)
				if o.Kind != once.Processed {
					t.Fatalf("got %+v", o)
				}
				return string(o.Reply.Body)
			}
			send(1, "1000000")
			if err := sys.Advance(t.Context(), c.idle); err != nil {
				t.Fatal(err)
			}
			if got := send(2, "1"); got != c.want {
				t.Errorf("the balance is %s, want %s", got, c.want)
			}
		})
	}
}

func TestAHandlerDeletesItsStateByTheZeroValue(t *testing.T) {
	sys := oncetest.New()
	once.Handle(sys.System, "accounts", deposit)
	for i, body := range []string{"5", "-5"} {
		sys.Call(t.Context(), once.Message{Stream: "accounts", Group: "alice", ID: strconv.Itoa(i), Body: []byte(body)})
	}
	state, err := oncetest.State[map[string]any](t.Context(), sys, "accounts", "alice")
	if err != nil || state != nil {
		t.Errorf("the state is %v, %v", state, err)
	}
}
