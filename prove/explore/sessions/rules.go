package sessions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// entryName returns the name of an entry: partition/number. In the log of a group, each life reads
// all entries, so that the name is session-life:incarnation/number.
func (x *explorer) entryName(session string, life uint64, group record.GroupKey, at log.Offset) string {
	if x.OfGroup {
		return fmt.Sprintf("%s-%d:%d/%d", session, life, at.Incarnation, at.Number)
	}
	return fmt.Sprintf("%s/%d", group.Group, at.Number)
}

// process adds entries to those that were processed.
func (w *world) process(work string) error {
	for e := range strings.FieldsSeq(work) {
		switch {
		case slices.Contains(w.done, e):
			return fmt.Errorf("entry %s is processed twice", e)
		case slices.Contains(w.dead, e):
			return fmt.Errorf("entry %s is processed, and was a dead letter", e)
		}
		if err := w.inOrder(e); err != nil {
			return err
		}
		w.done = append(w.done, e)
	}
	slices.Sort(w.done)
	return nil
}

// inOrder returns an error if an entry is processed before another one of its log that comes first.
func (w *world) inOrder(e string) error {
	part, number, _ := strings.Cut(e, "/")
	if w.x.OfGroup {
		life, _, _ := strings.Cut(e, ":")
		if n := w.processed(life + ":"); number != strconv.Itoa(n+1) || n != w.processed(part+"/") {
			return fmt.Errorf("entry %s is processed as number %d of its life", e, n+1)
		}
	}
	if w.x.ByPartition {
		for _, before := range w.done {
			if strings.HasPrefix(before, part+"/") && before > e {
				return fmt.Errorf("entry %s is processed after %s", e, before)
			}
		}
	}
	return nil
}

// processed returns how many entries were processed whose names begin with a prefix.
func (w *world) processed(prefix string) (n int) {
	for _, e := range w.done {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

// judge returns an error if a write of a record broke a rule, and notes the work that it did.
func (w *world) judge(n *world) error {
	for i, name := range w.x.names {
		was, is := w.describe(name), n.describe(name)
		if is.Fence > 0 && is.Fence <= w.fences[i] {
			return fmt.Errorf("session %s: fence %d is not after %d, of a life that is forgotten", name, is.Fence, w.fences[i])
		}
		if err := n.changed(was, is); err != nil {
			return fmt.Errorf("session %s: %w", name, err)
		}
	}
	return nil
}

var errMarked = errors.New("it is marked as returned, and not closed")

// changed applies the rules to a session before and after a write.
func (w *world) changed(was, is session.Description) error {
	switch {
	case is.Fence < was.Fence || is.Life < was.Life:
		return fmt.Errorf("fence %d is followed by %d", was.Fence, is.Fence)
	case is.Returned && !is.Closed:
		return errMarked
	case is.Ended && !was.Ended && len(w.given(w.done, w.dead, w.undone)) < w.x.total:
		return fmt.Errorf("the end comes after %s and the dead letters %s", w.done, w.dead)
	}
	if was.Life != is.Life {
		was = session.Description{}
	}
	if err := w.sameNumbers(was, is); err != nil {
		return err
	}
	if err := w.marks(was, is); err != nil {
		return err
	}
	return w.process(strings.TrimPrefix(string(is.State), string(was.State)))
}

// given returns the entries of several lists.
func (w *world) given(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}

// marks notes the dead letters that a write has marked.
func (w *world) marks(was, is session.Description) error {
	for _, r := range is.Dead {
		for number := r.First; number <= r.Last; number++ {
			if was.Dead.Contains(number) {
				continue
			}
			e, ok := entry(is, number)
			if !ok || slices.Contains(w.dead, e) || slices.Contains(w.done, e) {
				return fmt.Errorf("number %d becomes a dead letter, and it is done: %s", number, e)
			}
			if !slices.Contains(w.letters, e) {
				return fmt.Errorf("number %d is marked, and %s is not on the dead-letter queue", number, e)
			}
			w.dead = append(w.dead, e)
			slices.Sort(w.dead)
		}
	}
	return nil
}

var errNumber = errors.New("a number names another entry than before")

// sameNumbers returns an error if a number names two entries.
func (w *world) sameNumbers(was, is session.Description) error {
	for number := range uint64(w.x.total) { //nolint:gosec // a small number
		before, ok := entry(was, number+1)
		if after, still := entry(is, number+1); ok && still && before != after {
			return errNumber
		}
	}
	return nil
}

// entry returns the entry that a number of a session names.
func entry(d session.Description, number uint64) (string, bool) {
	for _, p := range d.Parts {
		if number >= p.Number && number < p.Number+p.Count {
			return fmt.Sprintf("%s/%d", p.Group.Group, p.First.Number+number-p.Number), true
		}
	}
	return "", false
}
