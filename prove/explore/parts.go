package explore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
)

// The parts of a world are immutable: a call makes a new one. Equal parts are the same object, so
// that states are compared by the parts' numbers.

// storePart is the content of the store.
type storePart struct {
	id       int32
	store    *memstore.Store // its clock is the zero time and not used
	contents memstore.Contents
}

// sendsPart is the list of deliveries that destinations have received: the first copy of each, in
// order.
type sendsPart struct {
	id   int32
	list []sent
}

// sent is the first copy of one delivery.
type sent struct {
	Identity    string
	To          string
	Path        string // the stream and group that sent it
	Incarnation uint64
	Number      uint64
	Sequence    uint64
	Body        string
	Due         string // when a delayed effect is due
}

// queuesPart is the content of queues, and of clients' requests. Lists are sorted, because any
// element may be taken at any time.
type queuesPart struct {
	id       int32
	messages []string // on the ingress queue, by name
	triggers []string // groups
	requests []string // of waiting clients, by name
	guarded  []string // messages for the leased consumer
	waiting  []string // delayed effects and messages of timers, in the store of delayed messages
	due      []string // delayed effects on the publish queue
	dead     []string // "name: reason"
	// taken holds, by received item, the numbers that can't be used to name another worker: bit n
	// stands for number n+1.
	taken map[string]uint64
}

// blobsPart is the content of a bucket.
type blobsPart struct {
	id        int32
	staged    map[string]stagedBlob
	published map[string]string
}

type stagedBlob struct {
	Body string
	At   time.Time
}

// pastPart is the history, as seen from outside the system.
type pastPart struct {
	id      int32
	applied []string          // "name by attempt", in order
	told    map[string]string // answers to clients, by request or message
	log     []committed       // every entry that was committed to the log that is read, in order
	reader  reader
}

// table keeps one object for all equal parts.
type table[T any] struct {
	byKey map[string]*T
	list  []*T
}

func newTable[T any]() *table[T] { return &table[T]{byKey: map[string]*T{}} }

// one returns the part of a key. If there is none, it calls make.
func (t *table[T]) one(key string, make func(id int32) *T) *T {
	if p, ok := t.byKey[key]; ok {
		return p
	}
	p := make(int32(len(t.list))) //nolint:gosec // there is no memory for more
	t.byKey[key] = p
	t.list = append(t.list, p)
	return p
}

func keyOf(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("explore: %v", err)) // only values that can be marshalled are kept
	}
	return string(text)
}

func (w *world) storeOf(s *memstore.Store) *storePart {
	contents := s.Contents()
	return w.stores.one(keyOf(contents), func(id int32) *storePart {
		return &storePart{id: id, store: s.Snapshot(func() time.Time { return time.Time{} }), contents: contents}
	})
}

// sound returns an error if the store may forget a record that it must keep.
func (p *storePart) sound() error {
	for _, g := range p.contents.Groups {
		if !g.Expires.IsZero() && (g.HasEffects() || g.HasHeld()) {
			return fmt.Errorf("it may be forgotten while something is pending or held: group %s", showGroup(g))
		}
		for _, p := range g.Pending {
			if !g.Expires.IsZero() && g.Expires.Before(p.DoneUntil) {
				return fmt.Errorf("it may be forgotten before its entries: group %s", showGroup(g))
			}
		}
		for _, t := range g.Timers {
			if !g.Expires.IsZero() && !g.Expires.After(t.Due) {
				return fmt.Errorf("it may be forgotten before its timers are due: group %s", showGroup(g))
			}
		}
	}
	return nil
}

// at returns a mutable copy of the store, at a time.
func (p *storePart) at(now time.Time) *memstore.Store {
	return p.store.Snapshot(func() time.Time { return now })
}

func (w *world) sendsOf(list []sent) *sendsPart {
	return w.sends.one(keyOf(list), func(id int32) *sendsPart { return &sendsPart{id, list} })
}

// change returns a copy of the queues after a change.
func (w *world) change(q *queuesPart, change func(*queuesPart)) *queuesPart {
	c := *q
	c.messages, c.triggers, c.requests = slices.Clone(q.messages), slices.Clone(q.triggers), slices.Clone(q.requests)
	c.guarded, c.dead, c.taken = slices.Clone(q.guarded), slices.Clone(q.dead), maps.Clone(q.taken)
	c.waiting, c.due = slices.Clone(q.waiting), slices.Clone(q.due)
	change(&c)
	for _, list := range [][]string{c.triggers, c.requests, c.guarded, c.dead, c.waiting, c.due} {
		slices.Sort(list)
	}
	switch {
	case w.scenario.placing(): // the order in which they were put
	case w.scenario.FIFO:
		slices.SortStableFunc(c.messages, func(a, b string) int {
			return slices.Index(w.scenario.Arrive, plain(a)) - slices.Index(w.scenario.Arrive, plain(b))
		})
	default:
		slices.Sort(c.messages)
	}
	c.dead, c.waiting = slices.Compact(c.dead), slices.Compact(c.waiting)
	return w.queues.one(c.key(), func(id int32) *queuesPart {
		c.id = id
		return &c
	})
}

// key returns a text that is different for different contents. It is called for each step, for which
// [keyOf] is too slow.
func (q *queuesPart) key() string {
	b := make([]byte, 0, 256)
	put := func(text string) { b = append(binary.AppendUvarint(b, uint64(len(text))), text...) }
	for _, list := range [][]string{q.messages, q.triggers, q.requests, q.guarded, q.dead, q.waiting, q.due} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, text := range list {
			put(text)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(q.taken)) {
		put(what)
		b = binary.AppendUvarint(b, q.taken[what])
	}
	return string(b)
}

// trigger adds a trigger. More triggers of one group than there are publishers make no difference.
func (q *queuesPart) trigger(group string, most int) {
	n := 0
	for _, g := range q.triggers {
		if g == group {
			n++
		}
	}
	if n < most {
		q.triggers = append(q.triggers, group)
	}
}

// without returns a list without one occurrence of a word.
func without(list []string, word string) []string {
	i := slices.Index(list, word)
	return slices.Delete(list, i, i+1)
}

func (w *world) blobsOf(staged map[string]stagedBlob, published map[string]string) *blobsPart {
	return w.blobs.one(keyOf(staged, published), func(id int32) *blobsPart { return &blobsPart{id, staged, published} })
}

func (w *world) pastOf(p pastPart) *pastPart {
	return w.pasts.one(keyOf(p.applied, p.told, p.log, p.reader), func(id int32) *pastPart {
		p.id = id
		return &p
	})
}

// telling is an answer to a client, after a past.
type telling struct {
	past      int32
	who, what string
}

// tell records an answer to a client. Two different answers are an error.
func (w *world) tell(p *pastPart, who, what string) (*pastPart, error) {
	key := telling{p.id, who, what}
	if next, ok := w.tellings[key]; ok {
		return next, nil
	}
	if before, ok := p.told[who]; ok {
		if before != what {
			return nil, fmt.Errorf("%s was told %q before, and %q now", who, before, what)
		}
		return p, nil
	}
	told := maps.Clone(p.told)
	if told == nil {
		told = map[string]string{}
	}
	told[who] = what
	c := *p
	c.told = told
	next := w.pastOf(c)
	w.tellings[key] = next
	return next, nil
}

// lines splits the state of a group, as the handler writes it: a line for each message.
func lines(state []byte) []string {
	if len(state) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(state), "\n"), "\n")
}
