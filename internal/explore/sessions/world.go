package sessions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A world is everything that is stored. It is never changed.
type world struct {
	x  *explorer
	id int32

	groups map[record.GroupKey]record.Group // pools and sessions
	rows   []row
	// done are the entries that were processed, dead the dead letters, as partition/number.
	done, dead []string
	// letters are the entries on the dead-letter queue, and effects those whose effects are committed.
	letters, effects []string
}

// with returns a changed copy. Equal worlds are the same object.
func (w *world) with(change func(n *world)) *world {
	n := &world{x: w.x, groups: maps.Clone(w.groups), rows: slices.Clone(w.rows), done: slices.Clone(w.done), dead: slices.Clone(w.dead), letters: slices.Clone(w.letters), effects: slices.Clone(w.effects)}
	change(n)
	return w.x.unique(n)
}

func (w *world) encode() string {
	var b strings.Builder
	for _, name := range w.x.keys {
		g := w.groups[name]
		fmt.Fprintf(&b, "%d %x\n", g.Version, g.State)
	}
	fmt.Fprint(&b, w.rows, w.done, w.dead, w.letters, w.effects)
	return b.String()
}

func (w *world) group(key record.GroupKey) record.Group {
	if g, ok := w.groups[key]; ok {
		return g
	}
	return record.Group{Key: key}
}

func (w *world) row(name string, life uint64) row {
	for _, r := range w.rows {
		if r.Name == name && r.Life == life {
			return r
		}
	}
	return row{Name: name, Life: life}
}

func (w *world) put(r row) {
	i := slices.IndexFunc(w.rows, func(x row) bool { return x.Name == r.Name && x.Life == r.Life })
	if i < 0 {
		w.rows = append(w.rows, r)
		slices.SortFunc(w.rows, func(a, b row) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return
	}
	w.rows[i] = r
}

// commit is the conditional write of a store.
func (w *world) commit(c record.Commit) (*world, answer, error) {
	key := c.Next.Key
	if stored := w.group(key); stored.Version != c.Loaded.Version {
		return w, answer{key: "conflict", err: record.ErrConflict}, nil
	}
	var wrong error
	next := w.with(func(n *world) {
		n.groups[key] = c.Next
		if wrong = w.judge(n); wrong == nil {
			wrong = n.emitted(&c)
		}
	})
	return next, answer{key: "done"}, wrong
}

// emitted notes the effects of a write. No entry may have two.
func (w *world) emitted(c *record.Commit) error {
	for _, p := range c.Next.Pending {
		if p.Number <= c.Loaded.Last {
			continue
		}
		for _, f := range p.Effects {
			body := strings.TrimSpace(string(f.Body))
			if slices.Contains(w.effects, body) {
				return fmt.Errorf("%s has its effect twice", body)
			}
			w.effects = append(w.effects, body)
		}
	}
	slices.Sort(w.effects)
	return nil
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
		if w.x.ByPartition {
			part, _, _ := strings.Cut(e, "/")
			for _, before := range w.done {
				if strings.HasPrefix(before, part+"/") && before > e {
					return fmt.Errorf("entry %s is processed after %s", e, before)
				}
			}
		}
		w.done = append(w.done, e)
	}
	slices.Sort(w.done)
	return nil
}

// describe returns a session.
func (w *world) describe(name string) session.Description {
	d, err := session.New(w.x.direct(w), w.x.config()).Describe(context.Background(), id(name))
	if err != nil {
		panic(err)
	}
	return d
}

// judge returns an error if a write of a record broke a rule, and notes the work that it did.
func (w *world) judge(n *world) error {
	for _, name := range w.x.names {
		if err := n.changed(w.describe(name), n.describe(name)); err != nil {
			return fmt.Errorf("session %s: %w", name, err)
		}
	}
	return nil
}

// changed applies the rules to a session before and after a write.
func (w *world) changed(was, is session.Description) error {
	if is.Fence < was.Fence || is.Life < was.Life {
		return fmt.Errorf("fence %d is followed by %d", was.Fence, is.Fence)
	}
	if is.Ended && !was.Ended && len(w.done)+len(w.dead) < w.x.total {
		return fmt.Errorf("the end comes after %s and the dead letters %s", w.done, w.dead)
	}
	if was.Life != is.Life {
		was = session.Description{}
	}
	if err := w.sameNumbers(was, is); err != nil {
		return err
	}
	for _, r := range is.Dead {
		for number := r.First; number <= r.Last; number++ {
			e, ok := entry(is, number)
			if was.Dead.Contains(number) {
				continue
			}
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
	return w.process(strings.TrimPrefix(string(is.State), string(was.State)))
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

// show returns the name of a record for people.
func show(key record.GroupKey) string {
	if key.Stream == "~pools" {
		return "the pool"
	}
	return "session " + key.Group[strings.LastIndex(key.Group, "/")+1:]
}
