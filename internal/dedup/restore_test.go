package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// restore puts the store back to a copy, and returns the restores of a system that was told.
func (l *lab) restore(to *memstore.Store, restores record.Restores) record.Restores {
	l.pass(time.Minute)
	l.store = to.Copy()
	l.mu.Lock()
	l.triggers = nil // what was in the queues is gone, too
	l.mu.Unlock()
	return append(slices.Clone(restores), record.Restore{At: l.clock()})
}

func (l *lab) restored(restores record.Restores, streams ...record.Stream) *worker {
	return l.workerOf(dedup.Config{Streams: streams, Restores: restores})
}

// deliveries returns what arrived at a destination since a number of arrivals.
func (l *lab) deliveries(destination string, since int) (out []record.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.sent[since:] {
		if d.To == destination {
			out = append(out, d.Delivery)
		}
	}
	return out
}

func (l *lab) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}

// finish publishes what the triggers name, by workers that know the restores.
func (l *lab) finish(restores record.Restores, streams ...record.Stream) {
	l.t.Helper()
	l.mu.Lock()
	triggers := l.triggers
	l.triggers = nil
	l.mu.Unlock()
	for _, x := range triggers {
		if err := l.restored(restores, streams...).Publish(l.t.Context(), []record.GroupKey{x.Key})[0]; err != nil {
			l.t.Error(err)
		}
	}
}

func ofNew(messages []record.Message) []record.Message {
	for i := range messages {
		messages[i].Group = "new"
	}
	return messages
}

func TestNoEffectAfterARestoreHasAnIdentityThatWasGivenBefore(t *testing.T) {
	l := newLab(t)
	work := func(restores record.Restores, messages []record.Message) (identities []string) {
		since := l.count()
		for _, fate := range l.restored(restores, byKey).process(messages...) {
			same(t, "fate", fate, "processed")
		}
		l.finish(restores, byKey)
		for _, d := range l.deliveries("out", since) {
			identities = append(identities, d.Identity)
		}
		return identities
	}
	same(t, "before the copy", work(nil, keyed("a: send")), []string{"s/g/1"})
	backup := l.store.Copy()
	same(t, "lost", work(nil, append(keyed("b: send send"), ofNew(keyed("c: send"))...)), []string{"s/g/2", "s/g/3", "s/new/1"})
	restores := l.restore(backup, nil)
	same(t, "after", work(restores, append(keyed("d: send", "e: send"), ofNew(keyed("f: send"))...)),
		[]string{"s/g/1099511627777", "s/g/1099511627778", "s/new/1099511627777"})
	backup = l.store.Copy()
	same(t, "lost again", work(restores, keyed("h: send")), []string{"s/g/1099511627779"})
	restores = l.restore(backup, restores)
	same(t, "after the second", work(restores, keyed("i: send")), []string{"s/g/2199023255553"})
}

func TestPendingEffectsOfACopyKeepTheirIdentitiesAndTargetsBeginAgainAfterThem(t *testing.T) {
	type numbered struct {
		Identity        string
		Epoch, Sequence uint64
	}
	l := newLab(t)
	w := l.restored(nil, byKey)
	began := uint64(l.clock().UnixMilli())
	w.process(keyed("a: send=next")...)
	l.finish(nil, byKey)
	w.process(keyed("b: send=next")...)
	backup := l.store.Copy() // with b pending
	w.process(keyed("c: send=next")...)
	l.finish(nil, byKey)
	since := l.count()
	restores := l.restore(backup, nil)
	l.restored(restores, byKey).process(keyed("d: send=next", "e: send=next")...)
	l.finish(restores, byKey)
	var got []numbered
	for _, d := range l.deliveries("next", since) {
		got = append(got, numbered{d.Identity, d.Incarnation, d.Sequence})
	}
	epoch := uint64(restores[0].At.UnixMilli())
	same(t, "sent after the restore", got, []numbered{{"s/g/2", began, 2}, {"s/g/1099511627777", epoch, 1}, {"s/g/1099511627778", epoch, 2}})
	if epoch <= began {
		t.Errorf("the epoch %d does not follow %d", epoch, began)
	}
}

// A time of a restore can be earlier than a group of the copy: it may be wrong, or of another clock.
func TestTargetsGetALaterEpochAfterEachRestoreWhateverItsTime(t *testing.T) {
	l := newLab(t)
	early := l.clock().Add(-time.Hour)
	restores := record.Listed([]time.Time{early, early.Add(time.Second), early.Add(time.Minute)})
	var last uint64
	for n := range len(restores) + 1 {
		since := l.count()
		l.restored(restores[:n], byKey).process(keyed(strconv.Itoa(n) + ": send=next")...)
		l.finish(restores[:n], byKey)
		got := l.deliveries("next", since)
		if len(got) != 1 || got[0].Sequence != 1 || got[0].Incarnation <= last {
			t.Fatalf("after %d restores: %+v, and epoch %d was before", n, got, last)
		}
		last = got[0].Incarnation
	}
}

func TestAReaderIsToldOfARestoreIfItHasReadMoreThanTheCopy(t *testing.T) {
	l := newLab(t)
	stream := logging(byKey)
	l.restored(nil, stream).process(keyed("a", "b")...)
	backup := l.store.Copy()
	l.restored(nil, stream).process(keyed("c", "d")...)
	key := record.GroupKey{Stream: "s", Group: "g"}
	page, err := log.Read(t.Context(), l.store, key, log.Offset{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "read", page.Next.Number, 4)
	restores := l.restore(backup, nil)
	var ahead *log.AheadError
	if _, err := log.Read(t.Context(), l.store, key, page.Next, 10); !errors.As(err, &ahead) {
		t.Errorf("before the first commit: %v", err)
	}
	l.restored(restores, stream).process(keyed("e", "f", "x", "y")...)
	var expired *log.ExpiredError
	if _, err := log.Read(t.Context(), l.store, key, page.Next, 10); !errors.As(err, &expired) || !expired.Restored {
		t.Fatalf("after it: %v", err)
	}
	page, err = log.Read(t.Context(), l.store, key, expired.First, 10)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "entries", len(page.Entries), 4)
	same(t, "first", page.Entries[0].Number, 1<<40+1)
	if page, err = log.Read(t.Context(), l.store, key, log.Offset{}, 10); err != nil {
		t.Fatal(err)
	}
	same(t, "kept entries of the copy", len(page.Entries), 2)
	if page, err = log.Read(t.Context(), l.store, key, page.Next, 10); err != nil { // it has missed nothing
		t.Fatalf("a reader that has read the copy: %v", err)
	}
	same(t, "entries", len(page.Entries), 4)
	same(t, "first", page.Entries[0].Number, 1<<40+1)
}

func TestAWorkerThatDoesNotKnowARestoreLeavesRecordsAlone(t *testing.T) {
	l := newLab(t)
	restores := record.Restores{{At: l.clock()}}
	l.restored(restores, byKey).process(keyed("a: send=next")...)
	before := l.group()
	outcome := l.restored(nil, byKey).Process(t.Context(), keyed("b"))[0]
	var unknown *record.RestoreError
	if outcome.Kind != record.Retry || !errors.As(outcome.Err, &unknown) {
		t.Errorf("got %v, %v", outcome.Kind, outcome.Err)
	}
	if err := l.restored(nil, byKey).Publish(t.Context(), []record.GroupKey{before.Key})[0]; !errors.As(err, &unknown) {
		t.Errorf("publish: %v", err)
	}
	if _, err := l.restored(nil, byKey).Skip(t.Context(), before.Key, before.Pending[0].Number); !errors.As(err, &unknown) {
		t.Errorf("skip: %v", err)
	}
	same(t, "record", summary(l.group()), summary(before))
	same(t, "sent", l.count(), 0)
}

// The message of the timer waits in the copy, as in the table of groups on AWS.
func TestATimerOfTheCopyFiresAgainAfterARestoreUnlessItIsCancelled(t *testing.T) {
	for body, want := range map[string]string{"cancel=remind": "duplicate", "send=out": "processed"} {
		l := newLab(t)
		l.committed(byKey, keyed("a: set=remind/1h")...)
		timer, copied := l.fired()[0], l.store.Copy()
		same(t, "fate before the restore", l.worker(byKey).process(timer), []string{"processed"})
		restores := l.restore(copied, nil)
		w := l.restored(restores, byKey)
		same(t, "fate of another message", w.process(keyed("b: "+body)...), []string{"processed"})
		same(t, "fate of the timer after "+body, w.process(timer), []string{want})
		same(t, "fate of a copy", w.process(timer), []string{"duplicate"})
	}
}

func TestEpochsThatAreOlderThanARestoreAreRefused(t *testing.T) {
	l := newLab(t)
	old := l.restored(nil, bySequence).epoch()
	restores := l.restore(l.store, nil)
	w := l.restored(restores, bySequence)
	same(t, "old", w.check(ofSource(old)), record.ReasonUnknown)
	l.pass(time.Second)
	next := w.epoch()
	if next <= old {
		t.Errorf("%d follows %d", next, old)
	}
	same(t, "new", w.check(ofSource(next)), "")
}

func TestAHandlerSeesNothingOfARestoreAndStateContinues(t *testing.T) {
	l := newLab(t)
	l.restored(nil, byKey).process(keyed("a")...)
	restores := l.restore(l.store.Copy(), nil)
	l.scripts["b"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		same(t, "state", string(a.State), "a,b,")
		return nil
	}
	same(t, "fates", l.restored(restores, byKey).process(keyed("b", "a")...), []string{"processed", "duplicate"})
}

// The second time, the copy has no stamp of the first.
func TestACopyThatIsPutBackTwiceGivesNoIdentityAndNoEntryTwice(t *testing.T) {
	l := newLab(t)
	stream := logging(byKey)
	l.restored(nil, stream).process(keyed("a: send=next")...)
	l.finish(nil, stream)
	backup, identities, epochs := l.store.Copy(), map[string]bool{}, map[uint64]bool{}
	var offset log.Offset
	for range 3 {
		at := l.restore(backup, nil)
		at[0].Stamped = true
		if page, err := log.Read(t.Context(), l.store, groupG, log.Offset{}, 10); err != nil || len(page.Entries) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		since := l.count()
		l.restored(at, stream).process(keyed("b: send=next", "c: send=next")...)
		l.finish(at, stream)
		got := l.deliveries("next", since)
		if len(got) != 2 || identities[got[0].Identity] || identities[got[1].Identity] || epochs[got[0].Incarnation] || got[0].Sequence != 1 {
			t.Errorf("%+v, and there were %v, %v", got, identities, epochs)
		}
		for _, d := range got {
			identities[d.Identity], epochs[d.Incarnation] = true, true
		}
		if offset != (log.Offset{}) { // of a reader of the history that is lost
			var expired *log.ExpiredError
			if _, err := log.Read(t.Context(), l.store, groupG, offset, 10); !errors.As(err, &expired) || !expired.Restored {
				t.Errorf("a reader at %s: %v", offset, err)
			}
		}
		page, err := log.End(t.Context(), l.store, groupG)
		if err != nil {
			t.Fatal(err)
		}
		offset = page.Next
	}
}
