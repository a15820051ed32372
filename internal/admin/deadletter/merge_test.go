package deadletter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// copyOf returns a letter as SQS delivers it, sent at an hour.
func copyOf(hour int, reason record.Reason, id, body string) *deadletter.Letter {
	m := wire.ToDeadLetter(record.Refused{Message: record.Message{Stream: "orders", ID: id, Group: "g", Body: []byte(body)}, Reason: reason}, queue.MaxSize)
	l := deadletter.Read("ingress-dead", queue.Delivery{Message: m, ID: fmt.Sprint("m", hour), Sent: time.Unix(0, 0).Add(time.Duration(hour) * time.Hour)}, []string{wire.Sender})
	return &l
}

func TestCopiesOfOneIdentityAreListedOnceWithTheirCount(t *testing.T) {
	list := &deadletter.Merged{Limit: 2, Content: -1}
	for _, l := range []*deadletter.Letter{
		copyOf(3, record.ReasonHandler, "a", "first"), copyOf(5, record.ReasonKeyReuse, "a", "other"), copyOf(1, record.ReasonHandler, "a", "first"), copyOf(2, record.ReasonHandler, "b", "x"),
	} {
		if !list.Add(l) {
			t.Errorf("%s is not listed", l.ID)
		}
	}
	if list.Add(copyOf(6, record.ReasonHandler, "c", "x")) {
		t.Error("more identities are listed than asked for")
	}
	if !list.Add(copyOf(7, record.ReasonAttempts, "b", "x")) {
		t.Error("a full list does not count a copy")
	}
	var got []string
	for i := range list.List {
		d := &list.List[i]
		got = append(got, fmt.Sprint(d.ID, " ", d.Reason, " ", d.Content.Text, " ", d.Count, " ", d.First.Unix()/3600, "-", d.Sent.Unix()/3600, " ", d.MessageID, d.Copies, " ", d.SelectorStream(), "/", d.Selector()))
	}
	want := []string{"a rejected first 3 1-5 m3[m5 m1] orders/a", "b attempts x 2 2-7 m7[m2] orders/b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLettersWithoutAnIdentityAreListedEach(t *testing.T) {
	list := &deadletter.Merged{Limit: 9}
	for range 2 {
		l := deadletter.Read("publish-dead", queue.Delivery{Message: queue.Message{Body: "x"}, ID: "m"}, nil)
		l.Refused = record.Refused{} // as that of a trigger
		list.Add(&l)
	}
	if len(list.List) != 2 || list.List[0].Selector() != "m" || list.List[0].SelectorStream() != "" {
		t.Errorf("%+v", list.List)
	}
}

func TestARedriveSendsOneOfEqualCopiesAndDeletesAll(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	q := letters(t, func() time.Time { return now }, 0)
	for _, id := range []string{"a", "b", "a", "c", "a", "c"} {
		refuse(t, q, id)
	}
	back := &recorder{answered: []string{"c"}}
	w := &deadletter.Walk{Queue: q, Trusted: []string{wire.Sender}}
	r, err := deadletter.Redrive(t.Context(), w, back, deadletter.Options{Until: now})
	if diff := cmp.Diff([]string{"a", "b"}, back.ids); diff != "" || err != nil || r.Redriven != 4 || r.Answered != 2 {
		t.Errorf("%+v, %v, put back (-want +got)\n%s", r, err, diff)
	}
	w.Release(t.Context(), time.Minute)
	r, err = deadletter.Redrive(t.Context(), &deadletter.Walk{Queue: q, Trusted: []string{wire.Sender}}, back, deadletter.Options{Until: now, Answered: true})
	if diff := cmp.Diff([]string{"c"}, back.reopened); diff != "" || err != nil || r.Redriven != 2 || q.Len() != 0 {
		t.Errorf("%+v, %v, %d left, reopened (-want +got)\n%s", r, err, q.Len(), diff)
	}
}

func TestARedriveSendsTheEffectsOfOneIdentityThatAreNotCopies(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	q := letters(t, func() time.Time { return now }, 0)
	effect := func(incarnation uint64, body string) queue.Message {
		d := &record.Delivery{Identity: "orders/g/1", Stream: "orders", Group: "g", Incarnation: incarnation, Effect: record.Effect{Body: []byte(body)}}
		return wire.ToDeadLetter(record.Refused{Reason: record.ReasonGone, To: "shop", Delivery: d}, queue.MaxSize)
	}
	q.Send(t.Context(), []queue.Message{effect(1, "pay 100"), effect(2, "pay 100"), effect(1, "pay 100"), effect(1, "pay 999")})
	// an invalid message is no copy of the one that it looks like
	for _, reason := range []record.Reason{record.ReasonInvalid, record.ReasonHandler} {
		q.Send(t.Context(), []queue.Message{copyOf(0, reason, "a", "x").Message})
	}
	back := &recorder{}
	r, err := deadletter.Redrive(t.Context(), &deadletter.Walk{Queue: q, Trusted: []string{wire.Sender}}, back, deadletter.Options{Until: now})
	if err != nil || r.Redriven != 6 || len(back.ids) != 5 || q.Len() != 0 {
		t.Errorf("%+v, %v, %d put back", r, err, len(back.ids))
	}
}
