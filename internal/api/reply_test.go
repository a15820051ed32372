package api_test

import (
	"testing"

	"github.com/effectively-once/once/internal/problem"
)

// Something else may stand between, whose answers look like those of a handler: only the mark tells them apart.
func TestWhatIsDoneSaysWhetherItIsAReplay(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		body   string
		status int
	}{{"reply", 409}, {"binary", 201}, {"sneaky", 200}, {"nothing", 200}} {
		w.send("PUT", request+c.body, c.body)
		for _, replayed := range []string{"false", "true"} {
			for _, got := range []response{
				w.send("POST", request+c.body, ""),
				w.send("POST", orders, c.body, "Idempotency-Key: message-"+c.body, "Prefer: wait=10"),
			} {
				if mark := got.header.Values("Idempotent-Replayed"); got.status != c.status || len(mark) != 1 || mark[0] != replayed {
					t.Errorf("%s: %d with %q, want %q", c.body, got.status, mark, replayed)
				}
			}
		}
	}
}

func TestAProblemInPlaceOfAReplyIsNotMarkedAsOne(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		body string
		want problem.Type
	}{{"nonsense", problem.Internal}, {"refuse", problem.Rejected}, {"fail", problem.Unavailable}} {
		w.send("PUT", request+c.body, c.body)
		for range 2 {
			got := w.send("POST", request+c.body, "")
			wantProblem(t, got, c.want)
			if mark := got.header.Values("Idempotent-Replayed"); len(mark) != 0 {
				t.Errorf("%s: %q", c.body, mark)
			}
		}
	}
}

// A numbered message has no token that would tell whether it was sent before.
func TestTheReplyToANumberedMessageDoesNotSayWhetherItIsAReplay(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		want(t, w.send("POST", chat, "reply", "Once-Source: alice", "Once-Sequence: 1", "Prefer: wait=10"), 409, "not enough money\x00", "Idempotent-Replayed: ")
	}
}
