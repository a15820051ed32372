package sessions

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A logState is a log, and what waits on the queue of its partition.
type logState struct {
	Incarnation, Last uint64
	Ended             bool
	// Sent says that the end is on the queue, behind all messages. A further copy of the end makes no
	// difference: a log takes no second one.
	Sent bool
}

// logsOf returns the logs at the beginning.
func (s *Scenario) logsOf() []logState {
	var out []logState
	for _, n := range s.Entries {
		l := logState{Incarnation: 1, Sent: s.OfGroup}
		if !s.Queued {
			l.Last, l.Ended = uint64(n)+1, true //nolint:gosec // not negative
		}
		out = append(out, l)
	}
	return out
}

// record returns the record of a log.
func (x *explorer) record(i int, l logState) record.Group {
	if l.Last == 0 {
		return record.Group{Key: x.logKey(i)}
	}
	return record.Group{
		Key: x.logKey(i), Incarnation: l.Incarnation, Version: l.Last,
		Log: record.Log{Last: l.Last, Time: clock.Hybrid(l.Last), Ended: l.Ended, Until: start().Add(100 * age)},
	}
}

// logIndex returns the number of a log, or -1 for another record.
func (x *explorer) logIndex(key record.GroupKey) int {
	for i := range x.Entries {
		if key == x.logKey(i) {
			return i
		}
	}
	return -1
}

// loadLog loads the record of a log. If logs do not change, that is no step.
func (a *actor) loadLog(i int) (record.Group, error) {
	if !a.moves() {
		return a.static[i], nil
	}
	got := a.do(&call{key: fmt.Sprint("load log ", i), text: fmt.Sprint("load log ", i), apply: func(w *world) (*world, answer, error) {
		return w, answer{key: fmt.Sprint(w.logs[i]), value: a.record(i, w.logs[i])}, nil
	}})
	if got.err != nil {
		return record.Group{}, got.err
	}
	return got.value.(record.Group), nil
}

// ReadLog implements [record.LogReader]. Entries do not change, so that reading them is no step.
func (a *actor) ReadLog(_ context.Context, r record.LogRange) (out []record.Chunk, err error) {
	i := a.logIndex(r.Group)
	for n := r.After + 1; n <= r.Last && !r.Enough(out, 0); n++ {
		out = append(out, a.chunk(i, r.Incarnation, n))
	}
	return out, nil
}

// chunk returns the chunk of one entry.
func (x *explorer) chunk(i int, incarnation, number uint64) record.Chunk {
	at := [3]uint64{uint64(i), incarnation, number} //nolint:gosec // not negative
	c, ok := x.chunks[at]
	if !ok {
		e := record.Entry{Number: number, Kind: record.EntryMessage, ID: fmt.Sprintf("%d/%d", incarnation, number), Time: clock.Hybrid(number)}
		if number > uint64(x.Entries[i]) { //nolint:gosec // not negative
			e.Kind = record.EntryEnd
		}
		g := x.record(i, logState{Incarnation: incarnation, Last: number})
		c = log.Chunks(&g, []record.Entry{e})[0]
		x.chunks[at] = c
	}
	return c
}

// Enqueue puts the end on the queue of a partition.
func (a *actor) enqueue(_ context.Context, m record.Message) error {
	i := a.logIndex(m.GroupKey())
	return a.do(&call{key: fmt.Sprint("send end ", i), text: fmt.Sprintf("send the end of partition %d", i), write: true, apply: func(w *world) (*world, answer, error) {
		var wrong error
		if w.group(endKey()).Version == 0 {
			wrong = fmt.Errorf("the end of partition %d is sent while the stream is open", i)
		}
		return w.with(func(n *world) { n.logs[i].Sent = true }), answer{key: "done"}, wrong
	}}).err
}

func endKey() record.GroupKey {
	return record.GroupKey{Stream: record.PoolsStream, Group: stream + "/end"}
}

// An event happens by itself, at any time.
type event struct {
	text string
	w    *world
	// restart says that the actors with the database die, and begin again.
	restart bool
	// passes says that no call is in progress any more.
	passes bool
}

// events returns the events that are possible in a world.
func (w *world) events() (out []event) {
	for i, l := range w.logs {
		if n, text, ok := w.x.appended(i, l); ok {
			out = append(out, event{text: text, w: w.with(func(next *world) { next.logs[i] = n })})
		}
	}
	if w.x.Again && w.logs[0].Incarnation == 1 {
		out = append(out, event{text: "the log begins again", w: w.with(func(n *world) { n.logs[0].Incarnation = 2 })})
	}
	if w.x.Restored && w.backup == nil {
		out = append(out, event{text: "back up the database", w: w.with(func(n *world) { n.backup = &backup{rows: w.rows, done: w.done} })})
	}
	if w.x.Restored && w.backup != nil && !w.restored {
		out = append(out, event{text: "restore the database", restart: true, w: w.with(func(n *world) {
			n.rows, n.done, n.restored = slices.Clone(w.backup.rows), slices.Clone(w.backup.done), true
			n.undone = slices.DeleteFunc(slices.Clone(w.done), func(e string) bool { return slices.Contains(n.done, e) })
		})})
	}
	if w.ages < w.x.Ages {
		out = append(out, event{text: "time passes", passes: true, w: w.with((*world).pass)})
	}
	return out
}

// appended returns a log after the next message of its queue.
func (x *explorer) appended(i int, l logState) (next logState, text string, ok bool) {
	n := uint64(x.Entries[i]) //nolint:gosec // not negative
	switch {
	case !x.Queued || l.Ended || l.Last == n && !l.Sent:
		return l, "", false
	case l.Last < n:
		text = fmt.Sprintf("entry %d/%d is appended", i, l.Last+1)
	default:
		l.Ended, text = true, fmt.Sprintf("log %d ends", i)
	}
	l.Last++
	return l, text, true
}

// time returns the time of a world.
func (w *world) time() time.Time { return start().Add(time.Duration(w.ages) * age) }

// pass lets time pass: expired records are forgotten.
func (w *world) pass() {
	w.ages++
	for i, name := range w.x.names {
		key := w.x.sessionKey(name)
		if g, ok := w.groups[key]; ok && !g.Expires.IsZero() && !g.Expires.After(w.time()) {
			w.fences[i] = max(w.fences[i], w.describe(name).Fence)
			delete(w.groups, key)
		}
	}
}
