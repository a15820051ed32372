package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// objects returns the objects that readers see, as key=content.
func (l *lab) objects() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for key, body := range l.blobs {
		out = append(out, key+"="+string(body))
	}
	slices.Sort(out)
	return out
}

func TestABlobIsStagedBeforeTheCommitAndPublishedAfterIt(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a: blob=k send")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run a", "stage a1.1.0-8a6e7be2b1fb05e8", "commit g v1", "trigger g"})
	same(t, "before", l.objects(), nil)
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"load g", "publish k", "send out s/g/1", "mark 1", "clear g 1"})
	same(t, "after", l.objects(), []string{"k=a"})
}

func TestTheBlobsOfALosingAttemptAreDeleted(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(l *lab) func(string) fault
		fate string
	}{
		{"that another worker overtook", func(l *lab) func(string) fault {
			return between("commit", func() { l.worker(byKey).process(keyed("a: blob=k")...) })
		}, "duplicate"},
		{"whose commit was lost before it was applied", func(*lab) func(string) fault { return once("commit", failsBefore) }, "processed"},
		{"whose commit was lost, and that another worker overtook", func(l *lab) func(string) fault {
			return nth(1, "commit", func() fault { l.worker(byKey).process(keyed("x")...); return failsBefore })
		}, "processed"},
		{"that could not stage the next", func(*lab) func(string) fault { return once("stage a1.1.1", failsAfter) }, "processed"},
		{"that could not read tokens", func(l *lab) func(string) fault {
			l.worker(byKey).process(keyed("y")...)
			return once("load +1", failsBefore)
		}, "processed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			w := l.worker(byKey)
			w.at = c.at(l)
			message := keyed("a: blob=k blob=l")
			if c.fate == "duplicate" {
				message = keyed("a: blob=k")
			}
			same(t, "fates", w.process(message...), []string{c.fate})
			same(t, "staged for the winner alone", len(l.staged), len(l.group().Pending[len(l.group().Pending)-1].Effects))
			l.publish(byKey)
			same(t, "staged at the end", len(l.staged), 0)
			if got := l.objects(); got[0] != "k=a" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheBlobsOfAnAmbiguousCommitAreKeptUntilItIsResolved(t *testing.T) {
	// The write is applied only after the worker has loaded again.
	l := newLab(t)
	w := l.worker(byKey)
	w.at = always("commit", failsBefore)
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"retry"})
	same(t, "staged", len(l.staged), 1)
	n, err := w.SweepBlobs(t.Context(), l.store, l.clock())
	if err != nil || n != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestTheBlobsOfAnAmbiguousCommitThatWonArePublished(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.at = once("commit", failsAfter)
	same(t, "fates", w.process(keyed("a: blob=k", "b: blob=l")...), []string{"processed", "processed"})
	l.publish(byKey)
	same(t, "objects", l.objects(), []string{"k=a", "l=b"})
	same(t, "staged", len(l.staged), 0)
}

func TestTheBlobsOfAnAmbiguousCommitThatIsPublishedAlreadyAreNotLost(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.at = both(once("commit", failsAfter), nth(2, "load", func() fault {
		if err := l.worker(byKey).publishOnce(); err != nil {
			t.Error(err)
		}
		return works
	}))
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"processed"})
	same(t, "objects", l.objects(), []string{"k=a"})
}

func TestABlobThatCanNotBePublishedKeepsItsEntryAndLaterOnes(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		l := newLab(t)
		l.worker(byKey).process(keyed("a: send", "b: blob=k", "c: send", "d", "e: blob=l")...)
		w := l.worker(byKey)
		w.at = always("publish k", f)
		if err := w.publishOnce(); !errors.Is(err, errInjected) {
			t.Errorf("got %v", err)
		}
		same(t, "left", summary(l.group()), "v1 state=a,b,c,d,e, pending=[2 b 1 effects][3 c 1 effects][5 e 1 effects]")
		same(t, "b is done", l.token(keyed("b")[0]).State, record.Absent)
		l.publish(byKey)
		same(t, "objects", l.objects(), []string{"k=b", "l=e"})
		same(t, "arrived", l.arrived("out"), []string{"s/g/1", "s/g/3"})
	}
}

func TestAMessageNextToAFailingBlobIsSentOnce(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send blob=k")...)
	w := l.worker(byKey)
	w.at = always("publish k", failsBefore)
	if err := w.publishOnce(); err == nil {
		t.Error("no error")
	}
	l.publish(byKey)
	same(t, "copies", len(l.sent), 1)
	same(t, "objects", l.objects(), []string{"k=a"})
}

func TestASweepDeletesOnlyOrphanedBlobs(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("commit", failsBefore)
	dead.process(keyed("a: blob=k")...)
	l.worker(byKey).process(keyed("b: blob=l")...)
	many := keyed("c")
	for n := range 120 { // more groups than one page
		many[0].Group = string(rune('A'+n%26)) + string(rune('A'+n/26))
		many[0].ID = many[0].Group
		l.worker(byKey).process(many...)
	}
	same(t, "staged", len(l.staged), 2)
	w := l.worker(byKey)
	n, err := w.SweepBlobs(t.Context(), l.store, l.clock())
	if n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	l.publish(byKey)
	same(t, "objects", l.objects(), []string{"l=b"})
}

func TestAFailedSweepOfBlobsReturnsAnError(t *testing.T) {
	for _, call := range []string{"staged", "discard"} {
		l := newLab(t)
		dead := l.worker(byKey)
		dead.at = dies("commit", failsBefore)
		dead.process(keyed("a: blob=k")...)
		w := l.worker(byKey)
		w.at = always(call, failsBefore)
		if _, err := w.SweepBlobs(t.Context(), l.store, l.clock()); !errors.Is(err, errInjected) {
			t.Errorf("%s: got %v", call, err)
		}
		same(t, "staged", len(l.staged), 1)
	}
}

// listless is a lister that fails.
type listless struct{ record.Lister }

func (listless) Groups(context.Context, string, record.GroupKey, int) ([]record.Group, error) {
	return nil, errInjected
}

func TestASweepThatCanNotListGroupsDeletesNothing(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: blob=k")...)
	if _, err := l.worker(byKey).SweepBlobs(t.Context(), listless{}, l.clock()); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	same(t, "staged", len(l.staged), 1)
}

func TestABlobThatCanNotBeDeletedIsLeftForTheSweep(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.at = both(between("commit", func() { l.worker(byKey).process(keyed("x")...) }), always("discard", failsBefore))
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"processed"})
	same(t, "staged", len(l.staged), 2)
}

func TestAnAttemptWhoseBlobsMayBeSweptIsNotCommitted(t *testing.T) {
	l := newLab(t)
	var staged time.Time
	l.scripts["b"] = func(context.Context, *record.Attempt, record.Message) error {
		l.pass(outbox.StagedTime + 1)
		return nil
	}
	w := l.worker(byKey)
	w.at = func(call string) fault {
		switch {
		case strings.HasPrefix(call, "stage "):
			staged = l.clock()
		case strings.HasPrefix(call, "commit ") && !staged.IsZero() && l.clock().Sub(staged) > outbox.StagedTime:
			t.Error("a commit names blobs that may be gone")
		}
		if call == "commit g v1" {
			staged = time.Time{} // b is committed alone, and has no blob
		}
		return works
	}
	same(t, "fates", w.process(keyed("a: blob=k", "b")...), []string{"processed", "processed"})
	same(t, "commits", summary(l.group()), "v2 state=a,b, pending=[1 a 1 effects][2 b 0 effects]")
	same(t, "staged", len(l.staged), 1)
}
