package dedup_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// void returns a void message of source p.
func void(n uint64) record.Message {
	m := numbered(fmt.Sprint(n))[0]
	m.Void = true
	return m
}

// through returns messages that came through a system.
func through(system string, messages []record.Message) []record.Message {
	for i := range messages {
		messages[i].Via = []string{system}
	}
	return messages
}

func TestAVoidMessagePassesItsNumberWithoutAHandler(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(bySequence))
	same(t, "early", w.process(numbered("3")...), []string{"held"})
	same(t, "next", w.process(append(numbered("1"), void(2))...), []string{"processed", "processed"})
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/3, pending= p/0 next=4 skipped=[{2 2}]")
	same(t, "entries", l.group().Log.Last, 3)
	same(t, "again", w.process(void(2)), []string{"duplicate"})
	same(t, "after its message", w.process(void(1)), []string{"duplicate"})
	same(t, "its message, late", w.process(numbered("2")...), []string{"rejected skipped"})
}

func TestAVoidMessageIsHeldLikeAnyOther(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(bySequence))
	same(t, "early", w.process(append(numbered("3"), void(2))...), []string{"held", "held"})
	same(t, "another content", w.process(numbered("2")...), []string{"rejected key-reuse"})
	same(t, "first", w.process(numbered("1")...), []string{"processed"})
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/3, pending= p/0 next=4 skipped=[{2 2}]")
	same(t, "entries", l.group().Log.Last, 3)
}

func TestAVoidMessageThatACommitHasNoRoomForIsInTheNext(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(bySequence))
	l.scripts["p/0/1"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Append(record.Entry{Body: make([]byte, 600<<10)})
		return nil
	}
	same(t, "fates", w.process(append(numbered("1"), void(2))...), []string{"processed", "processed"})
	same(t, "record", summary(l.group()), "v2 state=p/0/1, pending= p/0 next=3 skipped=[{2 2}]")
}

func TestManyVoidMessagesAreSeveralCommits(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(bySequence))
	var batch []record.Message
	for n := range uint64(record.MaxCommitItems + 10) {
		batch = append(batch, void(n+2))
	}
	for i, fate := range w.process(batch...) {
		if fate != "held" {
			t.Fatalf("void message %d is %s", i, fate)
		}
	}
	same(t, "first", w.process(numbered("1")...), []string{"processed"})
	same(t, "next", l.group().Sources["p"].Next, uint64(len(batch)+2))
	same(t, "entries", l.group().Log.Last, uint64(len(batch)+1))
}

func TestEffectsNameTheSystemsThatTheirMessageCameThrough(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	w.process(through("us", numbered("1: send=out"))...)
	l.publish(bySequence)
	same(t, "via", l.sent[0].Effect.Via, []string{"us"})
}

func TestWhatCameFromAnotherSystemIsNotRelayedAndTakesNoNumber(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	w.process(numbered("1: send=mesh")...)
	w.process(through("us", numbered("2: send=mesh+next send=mesh"))...)
	w.process(numbered("3: send=mesh+next")...)
	l.publish(bySequence)
	var got []string
	for _, d := range l.sent {
		got = append(got, fmt.Sprintf("%s %s %d", d.To, d.Effect.Body, d.Sequence))
	}
	slices.Sort(got) // destinations are sent to concurrently
	same(t, "sent", got, []string{"mesh p/0/1 1", "mesh p/0/3 2", "next p/0/2 1", "next p/0/3 2"})
}

func TestEffectsOfAStatelessStreamNameTheSystemsToo(t *testing.T) {
	l := newLab(t)
	w := l.worker(record.Stream{Name: "orders", Admission: record.ByKey, Stateless: true, Unordered: true})
	w.process(through("us", []record.Message{{Stream: "orders", ID: "m", Group: "g", Body: []byte("send=out send=mesh")}})...)
	same(t, "sent", len(l.sent), 1)
	same(t, "via", l.sent[0].Effect.Via, []string{"us"})
}
