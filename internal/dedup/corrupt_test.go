package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// A damaged store has records that can't be read.
type damaged struct {
	record.Store
	group record.GroupKey
	token record.TokenKey
	tried atomic.Int64 // loads that include one
}

func (d *damaged) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if slices.Contains(groups, d.group) || slices.Contains(tokens, d.token) {
		d.tried.Add(1)
		return nil, nil, fmt.Errorf("damaged: %w", record.ErrCorrupt)
	}
	return d.Store.Load(ctx, groups, tokens)
}

func inGroup(group, id string) record.Message {
	return record.Message{Stream: "s", Group: group, ID: id, Body: []byte("send")}
}

func TestACorruptRecordFailsItsOwnGroupOnly(t *testing.T) {
	for name, d := range map[string]*damaged{
		"group": {group: record.GroupKey{Stream: "s", Group: "bad"}},
		"token": {token: record.NewTokenKey("", "s", "bad")},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			d.Store = l.store
			w := l.workerOf(dedup.Config{Streams: []record.Stream{{Name: "s"}}, Store: d})
			out := w.Process(t.Context(), []record.Message{inGroup("a", "1"), inGroup("bad", "bad"), inGroup("b", "2")})
			if out[0].Kind != record.Processed || out[2].Kind != record.Processed {
				t.Errorf("the other groups: %s %v, %s %v", out[0].Kind, out[0].Err, out[2].Kind, out[2].Err)
			}
			if out[1].Kind != record.Retry || !errors.Is(out[1].Err, record.ErrCorrupt) {
				t.Errorf("its own group: %s, %v", out[1].Kind, out[1].Err)
			}
			if n := d.tried.Load(); n != 3 { // with the others, with its own messages, and alone
				t.Errorf("read %d times: another read finds the same", n)
			}
		})
	}
}

func TestACorruptTokenBlocksOnlyItsMessageAndLaterOnes(t *testing.T) {
	l := newLab(t)
	d := &damaged{Store: l.store, token: record.NewTokenKey("", "s", "bad")}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{{Name: "s"}}, Store: d})
	out := w.Process(t.Context(), keyed("a: send", "a: send", "bad", "b"))
	for i, want := range []error{nil, nil, record.ErrCorrupt, record.ErrBlocked} {
		if out[i].Settled() != (want == nil) || !errors.Is(out[i].Err, want) {
			t.Errorf("message %d is %s: %v", i, out[i].Kind, out[i].Err)
		}
	}
	same(t, "record", summary(l.group()), "v1 state=a, pending=[1 a 1 effects]")
	same(t, "triggers", len(l.triggers), 1)
}

func TestAPendingMessageNeedsNoToken(t *testing.T) {
	for _, body := range []string{": send", ""} {
		l := newLab(t)
		dead := l.worker(byKey)
		dead.at = dies("mark", failsBefore)
		dead.process(keyed("a" + body)...)
		d := &damaged{Store: l.store, token: record.NewTokenKey("", "s", "a")}
		w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: d})
		same(t, "fates", w.process(keyed("a"+body, "b")...), []string{"duplicate", "processed"})
		l.publish(byKey)
		same(t, "token", l.token(keyed("a")[0]).State, record.Done)
	}
}

func TestACorruptTokenOfACommittedMessageIsRewritten(t *testing.T) {
	l := newLab(t)
	dead := l.worker(bySequence)
	dead.at = dies("mark", failsBefore)
	dead.process(numbered("1: reply")...)
	entry := l.group().Pending[0]
	d := &damaged{Store: l.store, token: entry.Token}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{bySequence}, Store: d})
	same(t, "the next message", w.process(numbered("2")...), []string{"processed"})
	same(t, "until then its entry tells", summary(l.group()), "v2 state=p/0/1,p/0/2, pending=[1 p/0/1 0 effects] p/0 next=3")
	_, tokens, err := l.store.Load(t.Context(), nil, []record.TokenKey{entry.Token})
	if err != nil || tokens[0].State != record.Done {
		t.Errorf("token %v, %v", tokens, err)
	}
	l.worker(bySequence).process(numbered("3")...)
	same(t, "record", summary(l.group()), "v3 state=p/0/1,p/0/2,p/0/3, pending= p/0 next=4")
}

func TestACorruptTokenOfACommittedNumberBlocksNoDuplicate(t *testing.T) {
	l := newLab(t)
	dead := l.worker(bySequence)
	dead.at = dies("mark", failsBefore)
	dead.process(numbered("1: reply")...)
	d := &damaged{Store: l.store, token: record.NewNumberKey("", groupG, "p/0/1")}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{bySequence}, Store: d})
	same(t, "fates", w.process(numbered("1: reply")...), []string{"duplicate with p/0/1"})
}

func TestARequestWithACorruptTokenIsNotUnknown(t *testing.T) {
	l := newLab(t)
	m := keyed("bad")[0]
	m.Route = "PUT /x"
	d := &damaged{Store: l.store, token: record.NewTokenKey("", "s", "bad")}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: d})
	if err := w.Forget(t.Context(), m); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestACorruptTokenWithoutAGroupRecordFailsOnlyItsOwnMessage(t *testing.T) {
	l := newLab(t)
	d := &damaged{Store: l.store, token: record.NewTokenKey("", "s", "bad")}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{relay}, Store: d})
	out := w.Process(t.Context(), []record.Message{inGroup("", "1"), inGroup("", "bad"), inGroup("", "2"), inGroup("", "2")})
	for i, want := range []record.Kind{record.Processed, record.Retry, record.Processed, record.Duplicate} {
		if out[i].Kind != want {
			t.Errorf("message %d is %s: %v", i, out[i].Kind, out[i].Err)
		}
	}
}

func TestACorruptGroupDoesNotBlockPublishingOthers(t *testing.T) {
	l := newLab(t)
	d := &damaged{Store: l.store, group: record.GroupKey{Stream: "s", Group: "bad"}}
	if out := l.worker(record.Stream{Name: "s"}).Process(t.Context(), []record.Message{inGroup("a", "1")}); out[0].Kind != record.Processed {
		t.Fatal(out[0].Err)
	}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{{Name: "s"}}, Store: d})
	errs := w.Publish(t.Context(), []record.GroupKey{d.group, {Stream: "s", Group: "a"}})
	if !errors.Is(errs[0], record.ErrCorrupt) || errs[1] != nil || len(l.sent) != 1 {
		t.Errorf("errors %v, %d effects sent", errs, len(l.sent))
	}
}
