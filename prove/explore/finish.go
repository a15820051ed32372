package explore

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// finish acknowledges the messages that a run has settled and returns the others.
func (w *world) finish(s *state, r *run, out []step) []step {
	text := r.name + ": ends"
	past, err := w.judge(s, r)
	if err != nil {
		return append(out, step{text: text, wrong: err})
	}
	next := s.with(r, nil)
	next.past = past
	undone := r.end.undone(r.kind)
	next.queues = w.change(s.queues, func(p *queuesPart) { w.giveBack(p, r, undone) })
	next = w.delay(next)
	out = append(out, step{text: text, free: true, next: next})
	if r.lapsed && len(r.items) == 1 && !undone(r.items[0], 0) && !w.scenario.FIFO {
		out = w.takeAway(next, r, out)
	}
	return out
}

// takeAway models a late acknowledgement that succeeds: the second delivery disappears from the
// queue, or from the worker that holds it, whose own acknowledgement then has no effect.
func (w *world) takeAway(s *state, r *run, out []step) []step {
	other := r.items[0] + again
	next := *s
	if i := slices.IndexFunc(s.runs, func(r *run) bool { return r.kind == processes && !r.lapsed && slices.Contains(r.items, other) }); i >= 0 {
		next = *s.with(s.runs[i], w.lapsed(s.runs[i]))
	} else if slices.Contains(s.queues.messages, other) {
		next.queues = w.change(s.queues, func(p *queuesPart) { p.messages = without(p.messages, other) })
	} else {
		return out
	}
	text := r.name + ": ends, and its late acknowledgement counts"
	if err := w.safe(&next, r, plain(r.items[0])); err != nil {
		return append(out, step{text: text, wrong: err})
	}
	return append(out, step{text: text, free: true, next: &next})
}

// undone returns a function that reports which items have to be redelivered.
func (e *end) undone(k kind) func(string, int) bool {
	return func(item string, i int) bool {
		switch k {
		case processes:
			return e.again[fmt.Sprintf("%s %d", item, i)]
		case publishes:
			return e.again[item]
		case serves, guards:
			return e.told == ""
		case reopens:
			return true
		case sweeps, closes, collects, skips, follows, moves, kinds:
		}
		return false
	}
}

// judge checks the outcomes that a run reports, and records the answers to clients.
func (w *world) judge(s *state, r *run) (*pastPart, error) {
	past := s.past
	undone := r.end.undone(r.kind)
	for i, item := range r.items {
		if r.kind == processes && !r.lapsed && !undone(item, i) {
			if err := w.safe(s, r, plain(item)); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.end.fates)) {
		o := r.end.fates[name]
		if err := w.honest(past, name, o); err != nil {
			return nil, err
		}
		answer := o.Detail
		if o.Reply != nil {
			answer = string(o.Reply.Body)
		}
		no := o.Kind == record.Rejected && o.Reason.Final() && w.scenario.Messages[name].Source == ""
		if o.Reply == nil && !no || past.told[takenBack+name] != "" {
			continue
		}
		var err error
		if past, err = w.tell(past, "the caller of "+name, answer); err != nil {
			return nil, err
		}
	}
	for _, name := range r.end.accepted {
		var err error
		if past, err = w.tell(past, accepted+name, "202"); err != nil {
			return nil, err
		}
	}
	if r.end.read != nil {
		return w.continued(past, r.end.read, s.now)
	}
	if r.end.told == "" || r.kind == serves && len(w.scenario.Requests[request(r.items[0])].Messages) > 0 {
		return past, nil
	}
	return w.answered(s, past, r)
}

// honest checks that an outcome is true: a message that is settled by its token has the reply of
// the committed attempt.
func (w *world) honest(past *pastPart, name string, o record.Outcome) error {
	a, err := w.arrival(name)
	if err != nil {
		return err
	}
	done := o.Kind == record.Processed || o.Kind == record.Duplicate
	_, _, refused := o.Reply.Refused()
	switch {
	case !done || refused || !w.scenario.Stream.Reply || w.scenario.Stream.Stateless || a.Timer != "":
		return nil
	case o.Reply == nil && !a.ByNumber:
		return fmt.Errorf("%s is %s, and its reply is missing", name, o.Kind)
	case o.Reply != nil && !slices.Contains(past.applied, string(o.Reply.Body)):
		return fmt.Errorf("%s is %s, with the reply of an attempt that was not committed: %q", name, o.Kind, o.Reply.Body)
	}
	return nil
}

// takenBack is the prefix for a message of which an operator takes back the refusal.
const takenBack = "the operator for "

// reopened returns the past in which an operator begins to take back the refusal of a message: from
// then on its caller may be told another answer.
func (w *world) reopened(p *pastPart, name string) *pastPart {
	next, err := w.tell(p, takenBack+name, "taken back")
	if err != nil {
		panic(err) // the same answer each time
	}
	return next
}

// accepted is the prefix for a message whose client was told that it is accepted.
const accepted = "the sender of "

// answered records the answer to the client of a request, or to the caller of a leased consumer.
func (w *world) answered(s *state, past *pastPart, r *run) (*pastPart, error) {
	item, told := request(r.items[0]), r.end.told
	if r.kind == serves {
		request := w.scenario.Requests[item]
		if w.scenario.Stream.Pool {
			return w.beforeEnd(past, request, told)
		}
		if request.asksEpoch() {
			return w.issued(s, past, item, told)
		}
		if err := w.trulyDone(s, request, r.end); err != nil {
			return nil, err
		}
		if strings.HasSuffix(r.items[0], fenced) && told != "409" {
			return nil, fmt.Errorf("%s is answered with %s, although a newer epoch was issued before it", item, told)
		}
		if err := w.expected(s, request, told); err != nil {
			return nil, fmt.Errorf("%s: %w", item, err)
		}
		deleted := strings.HasPrefix(request.Do, "DELETE") || strings.HasPrefix(told, "410")
		if deleted { // with the number of times it had been applied by then
			told += strings.Repeat(" applied", w.timesApplied(request, past.applied))
			if past.told[item] != "" {
				return past, nil
			}
		} else if told == "202" {
			return w.tell(past, accepted+request.Message, told)
		} else if reply, ok := strings.CutPrefix(told, "200 "); !ok {
			// only replies have to agree: 404 may come before 200, and 410 after it
			return past, nil
		} else if !slices.Contains(past.applied, reply) {
			return nil, fmt.Errorf("%s was told the reply of an attempt that was not committed: %q", item, reply)
		}
		if !deleted {
			item = request.Do
		}
	}
	return w.tell(past, item, told)
}

// expected returns an error if an answer is not possible for a valid request. Its identity may
// belong to other content.
func (w *world) expected(s *state, r Request, told string) error {
	code, _, _ := strings.Cut(told, " ")
	codes := map[string][]string{http.MethodPut: {"200", "201", "410"}, http.MethodPost: {"200", "202", "404", "410"}, http.MethodDelete: {"204", "404", "410"}}
	method, path, _ := strings.Cut(r.Do, " ")
	if strings.HasSuffix(path, "/messages") {
		codes[method] = []string{"200", "202"}
	}
	switch {
	case code == "422" && method == http.MethodPut && w.hasOther(r), code == "409" && w.fences(s, r):
		return nil
	case code == "400" && w.scenario.Messages[r.Message].Rejected: // its refusal is remembered
		return nil
	case !slices.Contains(codes[method], code):
		return fmt.Errorf("%s is answered with %s", r.Do, told)
	case code == "410" && !w.tombstone(s, r.Message):
		return errors.New("it is not deleted, and the answer is 410")
	}
	return nil
}

// hasOther reports whether another request has the same name but other content.
func (w *world) hasOther(r Request) bool {
	m := w.scenario.message(r.Message)
	for _, other := range w.scenario.Requests {
		if o := w.scenario.message(other.Message); o.Identity() == m.Identity() && other.Message != r.Message {
			return true
		}
	}
	return false
}

// safe returns an error if a message must not be acknowledged now: it is neither applied, nor held,
// nor a dead letter, nor in another delivery.
func (w *world) safe(s *state, r *run, name string) error {
	m := w.scenario.message(name)
	a, err := w.arrival(name)
	if err != nil {
		return err
	}
	if w.scenario.Stream.Stateless {
		for _, t := range s.store.contents.Tokens {
			if t.Key == a.Token() && t.State == record.Done {
				return nil
			}
		}
	}
	if t, ok := parseTimer(name); ok && !w.isSet(s.past.applied, t) {
		return nil // it has fired, or was cancelled or replaced
	}
	if passed, _ := s.passes(&m); passed && m.Void || m.OnlyEnds() && s.ended() {
		return nil
	}
	for _, line := range s.past.applied {
		if b, err := w.arrival(nameIn(line)); err == nil && b.Token() == a.Token() && (b.Fingerprint() == a.Fingerprint() || a.ByNumber) {
			return nil // a number that was passed is a duplicate, with any content
		}
	}
	for _, h := range s.store.contents.Held {
		if h.Message.SourceKey() == m.SourceKey() && h.Message.Number() == m.Number() && h.Message.Fingerprint() == m.Fingerprint() {
			return nil
		}
	}
	for _, d := range s.queues.dead {
		if letter, _, _ := strings.Cut(d, ": "); w.copies(letter, name) {
			return nil
		}
	}
	is := func(item string) bool { return plain(item) == name }
	if slices.ContainsFunc(s.queues.messages, is) || slices.ContainsFunc(s.runs, func(other *run) bool {
		return other != r && other.kind == processes && !other.lapsed && slices.ContainsFunc(other.items, is)
	}) {
		return nil
	}
	return errors.New(name + " is acknowledged, and is neither applied nor held nor a dead letter")
}
