package dedup_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// ofSource is the first message of an epoch of the source p in the group g.
func ofSource(epoch uint64) record.Message {
	return record.Message{Stream: "s", Group: "g", Source: "p", Epoch: epoch, Sequence: 1}
}

func (w *worker) epoch() uint64 {
	w.t.Helper()
	epoch, err := w.IssueEpoch(w.t.Context(), ofSource(0), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return epoch
}

// check returns the reason with which the epoch of a message is refused.
func (w *worker) check(m record.Message) record.Reason {
	w.t.Helper()
	err := w.CheckEpochs(w.t.Context(), []record.Message{m})[0]
	if refused, ok := errors.AsType[*record.RefusedError](err); ok {
		return refused.Reason
	}
	if err != nil {
		w.t.Error(err)
	}
	return ""
}

func TestAnEpochIsIssuedOnceWhateverTheClockDoes(t *testing.T) {
	l := newLab(t)
	last := uint64(0)
	for _, passed := range []time.Duration{0, 0, time.Second, -24 * time.Hour, 0, 29 * 24 * time.Hour, 365 * 24 * time.Hour, -29 * 24 * time.Hour} {
		l.pass(passed)
		epoch := l.worker(bySequence).epoch()
		if epoch <= last || !record.EpochIssued(epoch) {
			t.Errorf("%d follows %d after %v", epoch, last, passed)
		}
		last = epoch
	}
}

func TestAnEpochIsIssuedOnceIfManyAskAtTheSameTime(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	given := map[uint64]bool{}
	var asking sync.WaitGroup
	for range 8 {
		w := l.worker(bySequence)
		asking.Go(func() {
			epoch, err := w.IssueEpoch(t.Context(), ofSource(0), nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || given[epoch] {
				t.Errorf("%d: %v", epoch, err)
			}
			given[epoch] = true
		})
	}
	asking.Wait()
}

func TestAnEpochThatAnotherCallerTookFirstIsNotIssued(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	other := uint64(0)
	w.at = between("commit", func() { other = l.worker(bySequence).epoch() })
	if epoch := w.epoch(); epoch <= other || other == 0 {
		t.Errorf("%d was issued after %d", epoch, other)
	}
}

func TestAnEpochWhoseWriteHasNoAnswerIsNotIssued(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		l := newLab(t)
		w := l.worker(bySequence)
		w.at = nth(1, "commit", func() fault { return f })
		if epoch, err := w.IssueEpoch(t.Context(), ofSource(0), nil); err == nil {
			t.Errorf("%d was issued", epoch)
		}
		stored := uint64(0)
		if f == failsAfter {
			stored = uint64(l.clock().UnixMicro())
		}
		if epoch := w.epoch(); epoch <= stored {
			t.Errorf("%d follows %d", epoch, stored)
		}
	}
}

func TestOnlyTheNewestIssuedEpochOfASourceIsValid(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	first := w.epoch()
	same(t, "the only one", w.check(ofSource(first)), "")
	second := w.epoch()
	same(t, "the newer one", w.check(ofSource(second)), "")
	same(t, "the older one", w.check(ofSource(first)), record.ReasonStaleEpoch)
	same(t, "one that was not issued", w.check(ofSource(second+1)), record.ReasonUnknown)
	same(t, "one that the sender chose", w.check(ofSource(7)), "")
	elsewhere := ofSource(second)
	elsewhere.Group = "h"
	same(t, "in another group", w.check(elsewhere), record.ReasonUnknown)
	elsewhere = ofSource(second)
	elsewhere.Principal = "bob"
	same(t, "of another principal", w.check(elsewhere), record.ReasonUnknown)
}

func TestAnEpochIsRememberedWhileItIsUsed(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	epoch := w.epoch()
	for range 10 {
		l.pass(record.DefaultGroupRetention - time.Hour)
		same(t, "in use", w.check(ofSource(epoch)), "")
	}
	l.pass(record.DefaultGroupRetention)
	same(t, "unused", w.check(ofSource(epoch)), record.ReasonUnknown)
	if again := w.epoch(); again <= epoch {
		t.Errorf("%d follows %d", again, epoch)
	}
}

func TestTheEpochOfAClockThatWasAheadIsRememberedUntilItsTime(t *testing.T) {
	l := newLab(t)
	l.pass(365 * 24 * time.Hour)
	ahead := l.worker(bySequence).epoch()
	l.pass(-365 * 24 * time.Hour)
	l.worker(bySequence).epoch()
	l.pass(364 * 24 * time.Hour)
	if epoch := l.worker(bySequence).epoch(); epoch <= ahead {
		t.Errorf("%d follows %d", epoch, ahead)
	}
}

func TestAnEpochIsNotIssuedAfterAnotherOneThanTheNewest(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	none := uint64(0)
	first, err := w.IssueEpoch(t.Context(), ofSource(0), &none)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.IssueEpoch(t.Context(), ofSource(0), &first)
	if err != nil || second <= first {
		t.Fatal(second, err)
	}
	for _, after := range []uint64{none, first, second + 1} {
		_, err := w.IssueEpoch(t.Context(), ofSource(0), &after)
		if newer, ok := errors.AsType[*record.NewerEpochError](err); !ok || newer.Epoch != second {
			t.Errorf("after %d: %v", after, err)
		}
	}
	same(t, "the newest one", w.check(ofSource(second)), "")
}

func TestTheEpochsOfABatchAreReadTogether(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	epoch := w.epoch()
	batch := []record.Message{ofSource(epoch), ofSource(7), ofSource(epoch + 1), ofSource(epoch), ofSource(epoch)}
	batch[4].Source = "q"
	loads := 0
	w.at = func(call string) fault {
		if strings.HasPrefix(call, "load") {
			loads++
		}
		return works
	}
	reasons := []record.Reason{"", "", record.ReasonUnknown, "", record.ReasonUnknown}
	for n, err := range w.CheckEpochs(t.Context(), batch) {
		got := record.Reason("")
		if refused, ok := errors.AsType[*record.RefusedError](err); ok {
			got = refused.Reason
		} else if err != nil {
			t.Error(err)
		}
		same(t, fmt.Sprint("message ", n), got, reasons[n])
	}
	same(t, "loads", loads, 1)
	w.at = once("load", failsBefore)
	for n, err := range w.CheckEpochs(t.Context(), batch) {
		if _, refused := errors.AsType[*record.RefusedError](err); refused || (err == nil) != (n == 1) {
			t.Errorf("message %d while the store is away: %v", n, err)
		}
	}
}

func TestACorruptEpochRefusesTheMessagesOfItsOwnSourceOnly(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	epoch := w.epoch()
	batch := []record.Message{ofSource(epoch), ofSource(epoch), ofSource(7)}
	batch[1].Source = "q"
	bad := record.NewSourceEpoch(&batch[1])
	d := &damaged{Store: l.store, group: bad.Key()}
	damagedWorker := l.workerOf(dedup.Config{Streams: []record.Stream{{Name: "s", Admission: record.BySequence}}, Store: d})
	for n, err := range damagedWorker.CheckEpochs(t.Context(), batch) {
		if errors.Is(err, record.ErrCorrupt) != (n == 1) || n != 1 && err != nil {
			t.Errorf("message %d: %v", n, err)
		}
	}
}
