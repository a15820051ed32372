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
	logs   []logState
	rows   []row
	// done are the entries that were processed, dead the dead letters, as partition/number.
	done, dead []string
	// letters are the entries on the dead-letter queue, and effects those whose effects are committed.
	letters, effects []string
	// backup is that of the database, nil if there is none yet. restored says that it was used, and
	// undone are the entries whose work is not in it.
	backup   *backup
	restored bool
	undone   []string
	// ages is how often time has passed. fences are the highest ones of the sessions of names that
	// were forgotten.
	ages   uint8
	fences []uint64
}

// A backup is a copy of the database.
type backup struct {
	rows []row
	done []string
}

// with returns a changed copy. Equal worlds are the same object.
func (w *world) with(change func(n *world)) *world {
	n := *w
	n.groups, n.logs, n.rows, n.fences = maps.Clone(w.groups), slices.Clone(w.logs), slices.Clone(w.rows), slices.Clone(w.fences)
	n.done, n.dead, n.letters, n.effects = slices.Clone(w.done), slices.Clone(w.dead), slices.Clone(w.letters), slices.Clone(w.effects)
	change(&n)
	return w.x.unique(&n)
}

func (w *world) encode() string {
	var b strings.Builder
	for _, name := range w.x.keys {
		g := w.groups[name]
		fmt.Fprintf(&b, "%d %d %x\n", g.Incarnation, g.Version, g.State)
	}
	fmt.Fprint(&b, w.rows, w.done, w.dead, w.letters, w.effects, w.logs, w.restored, w.undone, w.ages, w.fences)
	if w.backup != nil {
		fmt.Fprint(&b, *w.backup)
	}
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

var errLongFenced = errors.New("a fenced caller changes the session")

// commit is the conditional write of a store, by a caller that acts under a fence.
func (w *world) commit(c record.Commit, fence uint64) (*world, answer, error) {
	key := c.Next.Key
	if stored := w.group(key); stored.Version != c.Loaded.Version || stored.Incarnation != c.Loaded.Incarnation {
		return w, answer{key: "conflict", err: record.ErrConflict}, nil
	}
	var wrong error
	if id, ok := session.ParseKey(key); ok && fence > 0 {
		if d := w.describe(id.Name); !d.Closed && d.Fence != fence {
			wrong = errLongFenced
		}
	}
	next := w.with(func(n *world) {
		n.groups[key] = c.Next
		if wrong == nil {
			wrong = w.judge(n)
		}
		if wrong == nil {
			wrong = n.emitted(&c)
		}
	})
	return next, answer{key: "done"}, wrong
}

// emitted notes the effects of a write. No entry may have two, nor may the end.
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

// describe returns a session.
func (w *world) describe(name string) session.Description {
	d, err := w.x.direct(w).sessions.Describe(context.Background(), w.x.id(name))
	if err != nil {
		panic(err)
	}
	return d
}

// sessionKey returns the key of a session's record.
func (x *explorer) sessionKey(name string) record.GroupKey { return session.Key(x.id(name)) }

// show returns the name of a record for people.
func show(key record.GroupKey) string {
	switch {
	case key == endKey():
		return "the end"
	case key.Stream == record.PoolsStream:
		return "the pool"
	}
	return "session " + key.Group[strings.LastIndex(key.Group, "/")+1:]
}
