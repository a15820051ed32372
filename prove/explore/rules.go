package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// wrongly returns an error if the applied changes violate a rule.
func (w *world) wrongly(applied []string, told map[string]string) error {
	seen := map[record.TokenKey]string{}
	last := map[string]record.Message{}
	for _, line := range applied {
		name := nameIn(line)
		a, err := w.arrival(name)
		if err != nil {
			return err
		}
		if before, twice := seen[a.Token()]; twice && !w.scenario.Forgets {
			return fmt.Errorf("applied twice: %q and %q", before, line)
		}
		seen[a.Token()] = line
		if a.ByNumber {
			source := a.GroupName() + " " + a.SourceKey()
			if before, ok := last[source]; ok && (a.Epoch < before.Epoch || a.Epoch == before.Epoch && a.Sequence <= before.Sequence) && !w.scenario.Forgets {
				return fmt.Errorf("applied out of order: %q after number %d of epoch %d", line, before.Sequence, before.Epoch)
			}
			last[source] = a.Message
		}
	}
	if w.scenario.lined() {
		if err := w.ordered(applied); err != nil {
			return err
		}
	} else if w.scenario.FIFO && !w.scenario.placing() && !slices.IsSortedFunc(applied, func(a, b string) int {
		return slices.Index(w.scenario.Arrive, nameIn(a)) - slices.Index(w.scenario.Arrive, nameIn(b))
	}) {
		return fmt.Errorf("not in the order of the queue: %q", applied)
	}
	return errors.Join(w.deleted(applied, told), w.refusedAll(applied, told))
}

// deleted returns an error if a request was applied after its client was told that it is deleted.
func (w *world) deleted(applied []string, told map[string]string) error {
	for name, r := range w.scenario.Requests {
		gone, ok := told[name]
		if !ok || !strings.HasPrefix(gone, "204") && !strings.HasPrefix(gone, "410") {
			continue
		}
		if before := strings.Count(gone, "applied"); w.timesApplied(r, applied) > before {
			return fmt.Errorf("%s was applied after it was deleted", r.Message)
		}
	}
	return nil
}

// timesApplied returns how many messages under a request's name were applied, with any content.
func (w *world) timesApplied(r Request, applied []string) (n int) {
	named := w.scenario.message(r.Message)
	for _, line := range applied {
		if m := w.scenario.message(nameIn(line)); m.Identity() == named.Identity() {
			n++
		}
	}
	return n
}

// send delivers the first n of a list.
func (w *world) send(v view, list []sent, n int) outcome {
	received := slices.Clone(v.sends.list)
	for _, s := range list[:n] {
		if w.untaken(s.Body) {
			break
		}
		if w.refuses(s.Body) {
			continue
		}
		next, err := w.arrive(received, s, v)
		if err == nil {
			err = w.overtakes(received, s, v)
		}
		if err != nil {
			return outcome{view: v, wrong: err}
		}
		received = next
	}
	v.sends = w.sendsOf(received)
	return outcome{view: v, answer: w.answerOf(keyOf("sent", n), fmt.Sprintf("%d sent", n), v.now, n, nil)}
}

// arrive adds one delivery to the received ones, or returns the violated rule.
func (w *world) arrive(received []sent, s sent, v view) ([]sent, error) {
	past := v.past
	var last *sent
	for i := range received {
		r := &received[i]
		if r.Identity == s.Identity && (r.Incarnation == s.Incarnation || w.scenario.Budget.Restores > 0) && r.To == s.To {
			if *r != s {
				return nil, fmt.Errorf("one identity for two effects: %+v and %+v", *r, s)
			}
			return received, nil
		}
		if r.Body == s.Body && r.To == s.To {
			return nil, fmt.Errorf("one effect under two identities: %+v and %+v", *r, s)
		}
		if r.Path == s.Path && r.To == s.To && r.Incarnation == s.Incarnation && r.Due == "" {
			last = r
		}
	}
	if !w.scenario.Stream.Stateless {
		mark, _, _ := strings.Cut(s.Body, ",")
		switch {
		case !gapEvent(s.Body) && !slices.Contains(past.applied, mark):
			return nil, fmt.Errorf("sent by an attempt that was not committed: %q", s.Body)
		case s.Due != "":
			return append(received, s), early(s, v.now)
		// a publisher may have begun to send it before it became a dead letter
		case last != nil && s.Number < last.Number && !slices.Contains(v.queues.dead, deadEffect(s.To, s.Body)):
			return nil, fmt.Errorf("sent out of order: number %d for the first time after number %d", s.Number, last.Number)
		case w.scenario.Stream.Sequenced && s.Sequence != 1 && (last == nil || s.Sequence != last.Sequence+1):
			return nil, fmt.Errorf("a gap in what the destination counts: %q has number %d", s.Body, s.Sequence)
		}
		if err := w.drops(received, s); err != nil {
			return nil, err
		}
	}
	return append(received, s), nil
}

// overtakes returns an error if an earlier effect of the group is pending for the same destination,
// and neither received nor a dead letter.
func (w *world) overtakes(received []sent, s sent, v view) error {
	if w.scenario.Stream.For == 0 {
		return nil
	}
	for _, g := range v.store.contents.Groups {
		if g.Key.Path() != s.Path || g.Incarnation != s.Incarnation {
			continue
		}
		for _, p := range g.Pending {
			for i, f := range p.Effects {
				body := string(f.Body)
				waits := p.Number+uint64(i) < s.Number && slices.Contains(f.To, s.To) && !slices.Contains(v.queues.dead, deadEffect(s.To, body))
				if waits && !slices.ContainsFunc(received, func(r sent) bool { return r.To == s.To && r.Body == body }) {
					return fmt.Errorf("sent before its predecessor: %q before %q", s.Body, body)
				}
			}
		}
	}
	return nil
}

// gapEvent reports whether an effect is about skipped numbers.
func gapEvent(body string) bool { return strings.HasPrefix(body, "{") }
