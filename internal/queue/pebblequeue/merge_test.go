package pebblequeue_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
)

// counted merges messages such as "key:content", whose stream is the first letter, and counts them. The content "other" never replaces
// another one.
type counted struct{}

func (counted) Identity(d *queue.Delivery) (name, stream string) {
	key, _, ok := strings.Cut(d.Body, ":")
	if !ok {
		return "", ""
	}
	return key, key[:1]
}

func (counted) Merge(old, next *queue.Delivery) (queue.Message, bool) {
	_, content, _ := strings.Cut(next.Body, ":")
	m := queue.Message{Body: next.Body, Attributes: map[string]string{"count": old.Attributes["count"] + "+"}}
	if content == "other" {
		m.Body = old.Body
	}
	return m, content != "apart"
}

// A merging queue can be closed and opened again, at a time that the test sets.
type merging struct {
	*pebblequeue.Queue
	t   *testing.T
	dir string
	now time.Time
	end func()
}

func newMerging(t *testing.T) *merging {
	m := &merging{t: t, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0), end: func() {}}
	m.reopen()
	t.Cleanup(func() { m.end() })
	return m
}

func (m *merging) reopen() {
	m.t.Helper()
	m.end()
	db, err := pebbledb.Open(m.dir, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Queue, err = pebblequeue.Open(db, "ingress-dead", pebblequeue.Options{Merge: counted{}, Now: func() time.Time { return m.now }})
	if err != nil {
		m.t.Fatal(err)
	}
	m.end = func() {
		if err := m.Close(); err != nil {
			m.t.Error(err)
		}
		if err := db.Close(); err != nil {
			m.t.Error(err)
		}
	}
}

func (m *merging) send(bodies ...string) {
	m.t.Helper()
	var list []queue.Message
	for _, b := range bodies {
		list = append(list, queue.Message{Body: b})
	}
	for _, r := range m.Send(m.t.Context(), list) {
		if r.Err != nil {
			m.t.Fatal(r.Err)
		}
	}
}

func bodies(list []queue.Delivery) (out []string) {
	for i := range list {
		out = append(out, list[i].Body+list[i].Attributes["count"])
	}
	return out
}

func (m *merging) want(want ...string) {
	m.t.Helper()
	all, err := m.Peek(100)
	if err != nil {
		m.t.Fatal(err)
	}
	if diff := cmp.Diff(want, bodies(all)); diff != "" || m.Len() != len(want) {
		m.t.Errorf("%d messages (-want +got):\n%s", m.Len(), diff)
	}
}

func TestAQueueThatMergesKeepsOneMessageOfEachIdentity(t *testing.T) {
	m := newMerging(t)
	m.send("a:1", "b:1", "none", "a:2", "none")
	m.send("a:3")
	m.want("b:1", "none", "none", "a:3++")
	m.reopen()
	m.send("a:4", "b:2", "b:apart", "b:3")
	m.want("none", "none", "a:4+++", "b:2+", "b:3+")
}

// An operator looks at a message of a list whose identity is refused again meanwhile.
func TestAMessageThatReplacesAnotherHasItsID(t *testing.T) {
	m := newMerging(t)
	var ids []string
	for _, body := range []string{"a:1", "a:2"} {
		m.send(body)
		all, err := m.Peek(100)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		ids = append(ids, all[0].ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("the ids are %v", ids)
	}
}

// TestAReceiverDoesNotDeleteTheMessageThatReplacedItsOwn is a redrive whose message is refused again
// before its dead letter is deleted.
func TestAReceiverDoesNotDeleteTheMessageThatReplacedItsOwn(t *testing.T) {
	m := newMerging(t)
	m.send("a:1", "b:1")
	got, err := m.Receive(t.Context(), 1, time.Minute, 0)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	m.send("a:2")
	if errs := m.Delete(t.Context(), []string{got[0].Receipt}); errs[0] != nil {
		t.Fatal(errs)
	}
	m.want("b:1", "a:2+")
	got, err = m.Receive(t.Context(), 10, time.Minute, 0)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	m.send("a:other") // is not lost with the content that the receiver deletes
	m.Delete(t.Context(), []string{got[0].Receipt, got[1].Receipt})
	m.want("a:other")
	m.reopen()
	m.send("a:5")
	m.want("a:5+")
}

func TestConcurrentSendersAndDeletesLoseNoCount(t *testing.T) {
	m := newMerging(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				m.send("a:x")
			}
		})
	}
	all.Wait()
	m.want("a:x" + strings.Repeat("+", 399))
}

func TestTrimDeletesTheOldestMessagesByTheirAgeAndTheirNumber(t *testing.T) {
	m := newMerging(t)
	begin := m.now
	for i := range 6 {
		m.now = begin.Add(time.Duration(i) * time.Hour)
		m.send(fmt.Sprintf("k%d:%d", i, i))
	}
	m.send("k0:again")
	for _, c := range []struct {
		before      time.Duration
		most, limit int
		older       int
		gone        []int // the hours when they were sent
	}{
		{0, 6, 10, 0, nil},
		{150 * time.Minute, 6, 1, 2, []int{1}},
		{150 * time.Minute, 6, 10, 1, []int{2}},
		{0, 2, 10, 0, []int{3, 4}},
		{24 * time.Hour, 6, 10, 2, []int{5, 5}},
	} {
		before := begin.Add(c.before)
		if n := m.Older(before); n != c.older {
			t.Errorf("%d messages are older than %v, want %d", n, c.before, c.older)
		}
		gone, err := m.Trim(before, c.most, c.limit)
		var hours []int
		for _, g := range gone {
			hours = append(hours, int(g.Sent.Sub(begin).Hours()))
		}
		if diff := cmp.Diff(c.gone, hours); diff != "" || err != nil {
			t.Errorf("%+v: %v (-want +got):\n%s", c, err, diff)
		}
	}
	m.want()
	m.send("k1:new")
	m.want("k1:new")
}

func TestAMessageThatIsNotOldHidesNoOldOnes(t *testing.T) {
	m := newMerging(t)
	m.now = m.now.Add(time.Hour)
	m.send("a:1")
	m.now = m.now.Add(-time.Hour) // the clock was corrected
	m.send("b:1")
	before := m.now.Add(time.Minute)
	if gone, err := m.Trim(before, 10, 10); err != nil || len(gone) != 1 || gone[0].Stream != "b" {
		t.Errorf("%+v, %v", gone, err)
	}
	m.want("a:1")
}

func TestTheStreamWithTheMostMessagesGivesWay(t *testing.T) {
	m := newMerging(t)
	m.send("a1:x", "a2:x", "b1:x", "c1:x", "b2:x", "b3:x", "b4:x")
	m.reopen()
	if gone, err := m.Trim(time.Time{}, 4, 10); err != nil || len(gone) != 3 || gone[0].Stream != "b" {
		t.Errorf("%+v, %v", gone, err)
	}
	m.want("a2:x", "c1:x", "b3:x", "b4:x")
}
