package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/record"
)

var errAway = errors.New("away")

// service is a destination that records its requests. Bodies decide the result of an entry, once
// for each word: "fail", "again", "poison", "down", "refuse".
type service struct {
	batch.Service[string]
	requests []string
	tries    map[string]int
}

func newService(ordered bool) *service {
	s := &service{tries: map[string]int{}}
	s.Service = batch.Service[string]{
		Name: "test", Bytes: 100, Ordered: ordered, Put: s.put,
		Entry: func(d *record.Delivery) (string, int, error) {
			body := string(d.Effect.Body)
			if body == "refuse" {
				return "", 0, batch.Refuse("as told")
			}
			return d.Identity + " " + body, len(body), nil
		},
		Pause: func(context.Context, int) error { return nil },
	}
	return s
}

func (s *service) put(_ context.Context, entries []string) ([]error, error) {
	var names []string
	for _, e := range entries {
		names = append(names, strings.Fields(e)[0])
	}
	s.requests = append(s.requests, strings.Join(names, " "))
	errs := make([]error, len(entries))
	for i, e := range entries {
		words := strings.Fields(e)[1:]
		n := s.tries[e]
		s.tries[e]++
		if n >= len(words) {
			continue
		}
		switch words[n] {
		case "fail":
			errs[i] = errAway
		case "again":
			errs[i] = batch.Again(errAway)
		case "poison":
			s.tries[e]--
			return nil, &batch.Contents{Err: batch.Refuse("poison")}
		case "down":
			return nil, errAway
		}
	}
	return errs, nil
}

// deliveries parses "group/number body …": one delivery a line. A number of 0 has no group record.
func deliveries(lines ...string) []record.Delivery {
	var out []record.Delivery
	for _, line := range lines {
		name, body, _ := strings.Cut(line, " ")
		d := record.Delivery{Identity: name, Stream: "s", Effect: record.Effect{Body: []byte(body)}}
		group, number, _ := strings.Cut(name, "/")
		d.Group = group
		if _, err := fmt.Sscan(number, &d.Number); err != nil {
			panic(err)
		}
		out = append(out, d)
	}
	return out
}

func TestSend(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, c := range []struct {
		name     string
		ordered  bool
		lines    []string
		requests []string
		fates    string // of each: . sent, r refused, b behind, ! failed
	}{
		{"an ordered destination gets one of a group in a request", true, []string{"a/1", "a/2", "b/1", "a/3"}, []string{"a/1 b/1", "a/2", "a/3"}, "...."},
		{"another gets what fits", false, []string{"a/1", "a/2", "b/1", "a/3"}, []string{"a/1 a/2 b/1 a/3"}, "...."},
		{"a failure stops its group only", true, []string{"a/1 fail", "a/2", "b/1", "a/3", "b/2"}, []string{"a/1 b/1", "b/2"}, "!b.b."},
		{"a failure stops the later requests of its group", false, []string{
			"a/1 fail", "b/1", "b/2", "b/3", "b/4", "b/5", "b/6", "b/7", "b/8", "b/9", "a/2", "b/10",
		}, []string{"a/1 b/1 b/2 b/3 b/4 b/5 b/6 b/7 b/8 b/9", "b/10"}, "!.........b."},
		{"deliveries without a group record have no order", true, []string{"a/0 fail", "a/0", "a/0"}, []string{"a/0 a/0 a/0"}, "!.."},
		{"and bring none into disorder", true, []string{"a/1", "a/0", "a/2"}, []string{"a/1 a/0", "a/2"}, "..."},
		{"a refusal stops nothing", true, []string{"a/1 refuse", "a/2", "a/3 refuse", "a/4"}, []string{"a/2", "a/4"}, "r.r."},
		{"an entry is tried again before its group goes on", true, []string{"a/1 again again", "a/2", "b/1"}, []string{"a/1 b/1", "a/1", "a/1", "a/2"}, "..."},
		{"but not for ever", true, []string{"a/1 again again again", "a/2"}, []string{"a/1", "a/1", "a/1"}, "!b"},
		{"a request that fails ends the sending", true, []string{"a/1", "a/2 down", "a/3", "b/1", "b/2", "b/3"}, []string{"a/1 b/1", "a/2 b/2"}, ".!!.!!"},
		{"a bad entry is looked for", true, []string{"a/1", "b/1", "c/1 poison", "d/1", "c/2"}, []string{"a/1 b/1 c/1 d/1", "a/1 b/1", "c/1 d/1", "c/1", "d/1", "c/2"}, "..r.."},
		{"a request is no larger than it may be", true, []string{"a/1 " + long, "b/1 " + long, "c/1", "b/2"}, []string{"a/1 c/1", "b/1", "b/2"}, "...."},
		{"a request may be exactly full", false, []string{"a/1 " + long, "b/1 " + long[:40]}, []string{"a/1 b/1"}, ".."},
		{"if one half of a request fails as a whole, the other is not sent", true, []string{"a/1 fine down", "b/1", "c/1 poison", "d/1"}, []string{"a/1 b/1 c/1 d/1", "a/1 b/1"}, "!!!!"},
		{"a failure in one half stops its group in the other", false, []string{"a/1 fine fail", "b/1", "a/2", "c/1 poison"}, []string{"a/1 b/1 a/2 c/1", "a/1 b/1", "c/1"}, "!.br"},
		{"what is larger than a request goes alone", false, []string{"a/1 " + long + long, "a/2"}, []string{"a/1", "a/2"}, ".."},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(c.ordered)
			errs := s.Send(t.Context(), deliveries(c.lines...))
			if d := cmp.Diff(c.requests, s.requests); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
			if got := fates(errs); got != c.fates {
				t.Errorf("fates %s, want %s: %v", got, c.fates, errs)
			}
		})
	}
}

func fates(errs []error) string {
	var out []byte
	for _, err := range errs {
		switch {
		case err == nil:
			out = append(out, '.')
		case errors.As(err, new(*record.RefusedError)):
			out = append(out, 'r')
		case errors.Is(err, batch.ErrBehind):
			out = append(out, 'b')
		default:
			out = append(out, '!')
		}
	}
	return string(out)
}

func TestElevenEntriesAreTwoRequests(t *testing.T) {
	s := newService(true)
	var lines []string
	for i := range 11 {
		lines = append(lines, fmt.Sprintf("g%d/1", i))
	}
	s.Send(t.Context(), deliveries(lines...))
	sizes := make([]int, 0, 2)
	for _, r := range s.requests {
		sizes = append(sizes, len(strings.Fields(r)))
	}
	if !slices.Equal(sizes, []int{10, 1}) {
		t.Errorf("sizes %v", sizes)
	}
}

func TestAnAnswerThatLeavesEntriesOutFailsThem(t *testing.T) {
	s := newService(true)
	s.Put = func(context.Context, []string) ([]error, error) { return make([]error, 1), nil }
	errs := s.Send(t.Context(), deliveries("a/1", "b/1"))
	if errs[0] != nil || !errors.Is(errs[1], batch.ErrNoResult) {
		t.Errorf("%v", errs)
	}
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newService(true)
	if errs := s.Send(ctx, deliveries("a/1", "b/1")); !errors.Is(errs[0], context.Canceled) || !errors.Is(errs[1], context.Canceled) || len(s.requests) > 0 {
		t.Errorf("%v, %q", errs, s.requests)
	}
}
