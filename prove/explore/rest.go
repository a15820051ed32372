package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// atRest checks a state in which nothing is left to do: all effects have happened, and after a
// sweep nothing is left over.
func (x *search) atRest(s *state) error {
	if err := x.w.complete(s); err != nil {
		return err
	}
	key := [4]int32{s.store.id, s.blobs.id, s.past.id, int32(s.clock)}
	err, known := x.garbage[key]
	if !known {
		err = x.w.swept(s)
		x.garbage[key] = err
	}
	return err
}

// complete checks that every message was applied, or is a dead letter if that is allowed, and that
// all effects are visible.
func (w *world) complete(s *state) error {
	for name := range w.scenario.Messages {
		if err := w.accounted(s, name); err != nil {
			return err
		}
	}
	for _, d := range s.queues.dead {
		if body, ok := effectIn(d); ok && !w.mayDie(s, body) {
			return fmt.Errorf("a dead letter, though no destination refuses it: %s", d)
		}
	}
	if n := w.skipped(s); w.scenario.Skip > 0 && n > 1 {
		return fmt.Errorf("one number was skipped, and %d effects are dead letters: %q", n, s.queues.dead)
	}
	for _, mark := range s.past.applied {
		for i := range w.effects(nameIn(mark)) {
			if err := w.arrived(s, fmt.Sprintf("%s, effect %d", mark, i+1)); err != nil {
				return err
			}
		}
		name := "blob of " + nameIn(mark)
		if published := s.blobs.published[name]; w.scenario.Stream.Blob && published != mark && !w.scenario.Forgets {
			return fmt.Errorf("never published: %s is %q, not %q", name, published, mark)
		}
	}
	if err := w.fired(s.past.applied); err != nil {
		return err
	}
	for _, g := range s.store.contents.Groups {
		switch {
		case g.HasEffects():
			return fmt.Errorf("effects are pending and nobody publishes them: group %s", showGroup(g))
		case g.HasHeld():
			return fmt.Errorf("held, and nobody drains it: group %s", showGroup(g))
		}
		if err := w.toldOfGaps(s, g); err != nil {
			return err
		}
	}
	if len(s.store.contents.Held) > 0 {
		return errors.New("held messages that no group knows: " + showHeld(s.store.contents.Held))
	}
	for name, r := range w.scenario.Requests {
		if told := s.past.told[name]; strings.HasPrefix(r.Do, "DELETE") && strings.HasPrefix(told, "204") && !w.tombstone(s, r.Message) {
			return fmt.Errorf("%s was deleted, and is remembered all the same", r.Message)
		}
	}
	for _, name := range w.scenario.Guard {
		m := w.scenario.message(name)
		key := record.NewTokenKey("", stream, m.Identity())
		if !slices.ContainsFunc(s.store.contents.Tokens, func(t record.Token) bool { return t.Key == key && t.State == record.Done }) {
			return fmt.Errorf("its token does not say that it is done: %s", name)
		}
	}
	return w.marked(s)
}

// skipped returns how many effects are dead letters of a destination.
func (w *world) skipped(s *state) (n int) {
	for _, d := range s.queues.dead {
		if strings.HasPrefix(d, deadEffect(destination, "")) {
			n++
		}
	}
	return n
}

// arrived returns an error if an effect is missing: a destination has neither received it nor
// refused it as a dead letter.
func (w *world) arrived(s *state, body string) error {
	for _, to := range w.scenario.destinations() {
		if !slices.ContainsFunc(s.sends.list, func(t sent) bool { return t.Body == body && t.To == to }) && !slices.Contains(s.queues.dead, deadEffect(to, body)) {
			return fmt.Errorf("never sent to %s: %s", to, body)
		}
	}
	return nil
}

// toldOfGaps checks that the destinations were notified of skipped numbers.
func (w *world) toldOfGaps(s *state, g record.Group) error {
	if !w.scenario.Stream.Events {
		return nil
	}
	for source, src := range g.Sources {
		for _, r := range src.Skipped {
			event := admission.GapEvent{Source: source, Epoch: src.Epoch, First: r.First, Last: r.Last}.Effect(nil)
			if err := w.arrived(s, string(event.Body)); err != nil {
				return err
			}
		}
	}
	return nil
}

// tombstone reports whether a message's token says that it was deleted.
func (w *world) tombstone(s *state, name string) bool {
	m := w.scenario.message(name)
	key := record.NewTokenKey("", stream, m.Identity())
	return slices.ContainsFunc(s.store.contents.Tokens, func(t record.Token) bool { return t.Key == key && t.Deleted() })
}

// accounted checks the fate of one message.
func (w *world) accounted(s *state, name string) error {
	a, err := w.arrival(name)
	if err != nil {
		return err
	}
	applied := slices.ContainsFunc(s.past.applied, func(line string) bool {
		b, err := w.arrival(nameIn(line))
		// a number that was passed is a duplicate, with any content
		return nameIn(line) == name || a.ByNumber && err == nil && b.Token() == a.Token()
	})
	ran := slices.ContainsFunc(s.past.applied, func(line string) bool { return nameIn(line) == name })
	if w.scenario.Stream.Stateless {
		applied = slices.ContainsFunc(s.store.contents.Tokens, func(t record.Token) bool {
			_, _, refused := t.Reply.Refused()
			return t.Key == a.Token() && t.State == record.Done && t.Fingerprint == a.Fingerprint() && !refused
		})
		for i := range w.effects(name) {
			if err := w.arrived(s, fmt.Sprintf("%s, effect %d", name, i+1)); applied && err != nil {
				return err
			}
		}
		ran = applied
	}
	passed, skipped := s.passes(&a.Message)
	applied = applied || passed && a.Void
	dead := false
	for _, d := range s.queues.dead {
		letter, reason, _ := strings.Cut(d, ": ")
		its := w.copies(letter, name)
		if dead = dead || its; its && !w.justly(s, a, letter, record.Reason(reason)) {
			return fmt.Errorf("a dead letter for no reason: %q", s.queues.dead)
		}
	}
	arrived := slices.Contains(w.scenario.Arrive, name) || w.promised(s, name)
	switch {
	case arrived && !applied && !dead:
		return fmt.Errorf("lost: %s is neither applied nor a dead letter", name)
	case w.scenario.Stream.Pool && dead && s.past.told[accepted+name] == "202":
		return fmt.Errorf("lost: %s was accepted, and is a dead letter", name)
	case ran && skipped:
		return fmt.Errorf("applied, though its number is skipped: %s", name)
	case dead && ran && !slices.Contains(w.scenario.Both, name):
		return fmt.Errorf("applied, and a dead letter too: %s", name)
	case w.scenario.Messages[name].Rejected && applied:
		return fmt.Errorf("applied, though its handler refused it: %s", name)
	}
	return nil
}

// copies reports whether two names are of one message: dependencies are not part of its content.
func (w *world) copies(one, other string) bool {
	if one == other || w.scenario.Messages[one].Source == "" {
		return one == other
	}
	a, err1 := w.arrival(one)
	b, err2 := w.arrival(other)
	return err1 == nil && err2 == nil && a.Token() == b.Token() && a.Fingerprint() == b.Fingerprint()
}

// justly reports whether a message is a dead letter for a reason that the scenario allows, and that
// is true.
func (w *world) justly(s *state, a *admission.Arrival, name string, reason record.Reason) bool {
	if !slices.Contains(w.scenario.Dead[name], reason) {
		return false
	}
	_, skipped := s.passes(&a.Message)
	switch reason {
	case record.ReasonKeyReuse: // of another message, which was applied, or is void
		return skipped && w.void(a.GroupKey(), a.SourceKey(), a.Epoch, a.Sequence) || w.scenario.Stream.Stateless || slices.ContainsFunc(s.past.applied, func(line string) bool {
			b, err := w.arrival(nameIn(line))
			return err == nil && b.Token() == a.Token() && b.Fingerprint() != a.Fingerprint()
		})
	case record.ReasonSkipped:
		return skipped
	case record.ReasonGap:
		return !s.now.Before(start().Add(time.Duration(w.scenario.Stream.After)))
	case record.ReasonEnded:
		return slices.ContainsFunc(s.store.contents.Groups, func(g record.Group) bool { return g.Key == a.GroupKey() && g.Log.Ended })
	case record.ReasonExpired:
		return !s.now.Before(start().Add(w.remembered()))
	default:
		return true
	}
}

// promised reports whether a client was told that the message is or will be processed.
func (w *world) promised(s *state, name string) bool {
	if told := s.past.told[accepted+name]; told != "" && told != notAccepted {
		return true
	}
	for _, r := range w.scenario.Requests {
		reply, ok := strings.CutPrefix(s.past.told[r.Do], "200")
		if !ok || !strings.HasPrefix(r.Do, "POST") {
			continue
		}
		if nameIn(strings.TrimSpace(reply)) == name {
			return true
		}
	}
	return false
}

// marked checks that the tokens of applied messages are done, until they expire.
func (w *world) marked(s *state) error {
	if w.scenario.Stream.Admission == record.BySequence && !w.scenario.Stream.Reply || w.scenario.Forgets || !s.now.Before(start().Add(w.remembered())) {
		return nil
	}
	for _, line := range s.past.applied {
		a, err := w.arrival(nameIn(line))
		if err != nil {
			return err
		}
		if a.Timer != "" {
			continue // the record of its group says so
		}
		t, ok := doneToken(s, a)
		if !ok {
			return fmt.Errorf("neither its token nor its group says that it is done: %s", line)
		}
		switch {
		case t.Reason == record.ReasonDeleted:
		// the fingerprint of a request contains its route
		case t.Fingerprint != a.Fingerprint() && !t.OfRequest():
			return fmt.Errorf("its token is of another content: %s", line)
		case t.Expires.Before(start().Add(w.remembered())):
			return fmt.Errorf("its token is forgotten too early: %s", line)
		case w.scenario.Stream.Reply && (t.Reply == nil || string(t.Reply.Body) != line):
			return fmt.Errorf("its token has not its reply: %s", line)
		}
	}
	return nil
}

// doneToken returns the done token of a message, or that of the kept entry that takes its place.
func doneToken(s *state, a *admission.Arrival) (record.Token, bool) {
	for _, t := range s.store.contents.Tokens {
		if t.Key == a.Token() && t.State == record.Done {
			return t, true
		}
	}
	for _, g := range s.store.contents.Groups {
		for _, p := range g.Pending {
			if p.Kept() && p.Token == a.Token() {
				return p.DoneToken(g.Key, s.now), true
			}
		}
	}
	return record.Token{}, false
}

// remembered returns the minimum time for which a message is known to be done.
func (w *world) remembered() time.Duration {
	switch {
	case w.scenario.Stream.Retention > 0:
		return time.Duration(w.scenario.Stream.Retention)
	default:
		return record.DefaultRetention
	}
}

// swept sweeps the groups and the bucket of a state, without any fault, and checks that nothing is
// left over.
func (w *world) swept(s *state) error {
	if err := w.readToTheEnd(s); err != nil {
		return err
	}
	s, err := w.endsInTheEnd(s)
	if err != nil {
		return err
	}
	for _, key := range w.scenario.groups() {
		var err error
		if s, err = w.alone(s, sweeps, key.Group); err != nil {
			return err
		}
	}
	for len(s.queues.triggers) > 0 {
		trigger := s.queues.triggers[0]
		group, _ := parseTrigger(trigger)
		taken := *s
		taken.queues = w.change(s.queues, func(q *queuesPart) { q.triggers = without(q.triggers, trigger) })
		var err error
		if s, err = w.alone(&taken, publishes, group); err != nil {
			return err
		}
	}
	later := *s
	later.clock = longAfter
	later.now = w.clock(later.clock)
	s, err = w.alone(&later, collects, "")
	if err != nil {
		return err
	}
	for _, g := range s.store.contents.Groups {
		if !g.Idle() {
			return fmt.Errorf("left over after a sweep: group %s", showGroup(g))
		}
		if err := w.retained(&g); err != nil {
			return err
		}
	}
	if err := w.remembers(s.past.applied, s.view); err != nil {
		return err
	}
	if len(s.blobs.staged) > 0 && w.scenario.Tick > 0 {
		return fmt.Errorf("staged for ever: %d objects", len(s.blobs.staged))
	}
	return nil
}

// retained returns an error if an idle record has no expiry although it is not kept for ever, or if
// its state expires too early.
func (w *world) retained(g *record.Group) error {
	long := w.scenario.Stream.StateRetention
	hasState := !w.isDeleted(g.State)
	switch {
	case g.Expires.IsZero() && !w.scenario.Stream.Pool && (!hasState || *long > 0):
		return fmt.Errorf("kept for ever: group %s", showGroup(*g))
	case hasState && !g.Expires.IsZero() && (*long == 0 || g.Expires.Before(start().Add(time.Duration(*long)))):
		return fmt.Errorf("its state expires too early: group %s", showGroup(*g))
	}
	return nil
}

// remembers returns an error if a state that is kept for ever lacks the change of a message that
// was applied after the last one that deleted the state.
func (w *world) remembers(applied []string, v view) error {
	if long := w.scenario.Stream.StateRetention; long == nil || *long > 0 {
		return nil
	}
	groups, _, err := v.store.at(v.now).Load(context.Background(), w.scenario.groups(), nil)
	if err != nil {
		return err
	}
	for _, mark := range slices.Backward(applied) {
		if w.scenario.Messages[nameIn(mark)].Deletes {
			break
		}
		if !slices.ContainsFunc(groups, func(g record.Group) bool { return slices.Contains(lines(g.State), mark) }) {
			return fmt.Errorf("the state of a group is lost: %q is in none", mark)
		}
	}
	return nil
}

// longAfter is a time at which no worker is waiting any more.
const longAfter = 250

// alone runs one worker to its end, without any fault.
func (w *world) alone(s *state, k kind, item string) (*state, error) {
	next := *s
	s = &next
	for r := w.begin(k, "last "+k.String(), []string{item}, s.view); r.end == nil; {
		o := r.call.do(s.view)
		if o.wrong != nil {
			return nil, fmt.Errorf("a sweep of what is left: %w", o.wrong)
		}
		s.view = o.view
		r = w.after(r, o.answer)
	}
	return s, nil
}
