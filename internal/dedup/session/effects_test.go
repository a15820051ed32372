package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// queues records triggers and dead letters, and may fail.
type queues struct {
	record.Queues
	triggers []string
	letters  []record.Refused
	fails    error
}

func (q *queues) Trigger(_ context.Context, groups []record.GroupKey, delay time.Duration) error {
	for _, key := range groups {
		q.triggers = append(q.triggers, fmt.Sprint(key.Path(), " ", delay))
	}
	return q.fails
}

func (q *queues) DeadLetter(_ context.Context, refused []record.Refused) error {
	q.letters = append(q.letters, refused...)
	return q.fails
}

// A sink is a destination that records what it got.
type sink []string

func (s *sink) Send(_ context.Context, deliveries []record.Delivery) []error {
	for _, d := range deliveries {
		*s = append(*s, fmt.Sprintf("%s %s %d", d.Identity, d.Effect.Body, d.Sequence))
	}
	return make([]error, len(deliveries))
}

func effect(body string) record.Effect {
	return record.Effect{To: []string{"mail"}, Group: "inbox", Body: []byte(body)}
}

// publish publishes the pending effects of a session, and returns what was sent.
func (w *world) publish(key record.GroupKey) []string {
	w.Helper()
	var sent sink
	p := outbox.New(outbox.Config{Store: w.store.(record.Store), Senders: map[string]record.Sender{"mail": &sent}, Now: func() time.Time { return w.now }, Observe: func(record.Event) {}})
	w.noError(p.Publish(w.Context(), []record.GroupKey{key})[0])
	return sent
}

var keyOfAnn = record.GroupKey{Stream: "~sessions", Group: stream + "/ann"}

func TestTheEffectsOfACommitArePublishedOnceUnderTheirOwnIdentities(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q, Sequenced: map[string]bool{"mail": true}}, session.Pool{}, func(w *world) {
		q.triggers = nil
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		c := session.Commit{Fence: f, From: 0, To: 2, State: []byte("s"), Effects: []record.Effect{effect("a"), effect("b")}}
		for range 2 {
			w.noError(w.Commit(w.Context(), ann, c))
		}
		if want := []string{"~sessions/work/ann/1 a 1", "~sessions/work/ann/2 b 2"}; !slices.Equal(w.publish(keyOfAnn), want) {
			w.Error("the effects are not those of one commit")
		}
		w.noError(w.Commit(w.Context(), ann, c))
		if sent := w.publish(keyOfAnn); len(sent) > 0 {
			w.Errorf("a repeated commit has more effects: %s", sent)
		}
		w.noError(w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 2, To: 3, Effects: []record.Effect{effect("c")}}))
		if sent := w.publish(keyOfAnn); !slices.Equal(sent, []string{"~sessions/work/ann/3 c 3"}) {
			w.Errorf("sent %s", sent)
		}
		if o := w.open(ann, session.TakeNow); o.Cursor != 3 || string(o.State) != "s" {
			w.Errorf("got %+v", o)
		}
	})
}

// The first trigger covers a crash after the write, the second makes the publishing prompt, and a
// repeated commit asks again, because the first one may have died before its second trigger.
func TestACommitWithEffectsTriggersBeforeAndAfterItsWrite(t *testing.T) {
	for _, recalls := range []bool{false, true} {
		q := &queues{}
		each(t, session.Config{Queues: q, Recalls: recalls}, session.Pool{}, func(w *world) {
			q.triggers, q.fails = nil, nil
			w.fill(0, 1)
			f := w.open(ann, session.TakeFree).Fence
			w.read(ann, f, 1)
			c := session.Commit{Fence: f, From: 0, To: 1, Effects: []record.Effect{effect("a")}}
			want := []string{"~sessions/work/ann 0s", "~sessions/work/ann 0s"}
			if !recalls {
				want = []string{"~sessions/work/ann 15m0s", "~sessions/work/ann 0s", "~sessions/work/ann 15m0s", "~sessions/work/ann 0s"}
			}
			for range 2 {
				w.noError(w.Commit(w.Context(), ann, c))
			}
			if !slices.Equal(q.triggers, want) {
				w.Errorf("recalls %t: triggered %s", recalls, q.triggers)
			}
			q.fails = errBroken
			if err := w.Commit(w.Context(), ann, c); !errors.Is(err, errBroken) {
				w.Errorf("a lost trigger is no error: %v", err)
			}
		})
	}
}

func TestTheEffectsOfAFencedOrLateCommitAreNeverPublished(t *testing.T) {
	each(t, session.Config{Queues: &queues{}}, session.Pool{}, func(w *world) {
		w.fill(0, 2)
		old := w.open(ann, session.TakeFree).Fence
		f := w.open(ann, session.TakeNow).Fence
		w.read(ann, f, 2)
		fails[session.FencedError](w, w.Commit(w.Context(), ann, session.Commit{Fence: old, From: 0, To: 1, Effects: []record.Effect{effect("old")}}))
		w.commit(ann, f, 0, 2)
		fails[session.MovedError](w, w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1, Effects: []record.Effect{effect("late")}}))
		if sent := w.publish(keyOfAnn); len(sent) > 0 {
			w.Errorf("sent %s", sent)
		}
	})
}

func TestEffectsThatCanNotBePublishedAreRefusedBeforeTheCommit(t *testing.T) {
	check := func(effects []record.Effect) error {
		if effects[0].To[0] != "mail" {
			return errBroken
		}
		return nil
	}
	each(t, session.Config{Queues: &queues{}, Feasible: check}, session.Pool{}, func(w *world) {
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		large := strings.Repeat("x", 200<<10)
		for name, c := range map[string]session.Commit{
			"no destination":        {To: 1, Effects: []record.Effect{{}}},
			"a blob":                {To: 1, Effects: []record.Effect{{To: []string{"mail"}, Blob: &record.Blob{}}}},
			"another destination":   {To: 1, Effects: []record.Effect{{To: []string{"other"}}}},
			"too large":             {To: 1, Effects: []record.Effect{effect(large), effect(large)}},
			"effects without step":  {Effects: []record.Effect{effect("a")}},
			"a state without step":  {State: []byte("s")},
			"effects of a way back": {From: 1, Effects: []record.Effect{effect("a")}},
		} {
			c.Fence = f
			if _, ok := errors.AsType[*record.InvalidError](w.Commit(w.Context(), ann, c)); !ok {
				w.Errorf("%s is not refused", name)
			}
		}
		w.noError(w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1, Effects: []record.Effect{effect(large)}}))
		second := session.Commit{Fence: f, From: 1, To: 2, Effects: []record.Effect{effect(large)}}
		if err := w.Commit(w.Context(), ann, second); !errors.Is(err, record.ErrFull) {
			w.Errorf("more than fits is pending: %v", err)
		}
		w.publish(keyOfAnn)
		w.noError(w.Commit(w.Context(), ann, second))
	})
}

func TestTheRecordOfARetiredSessionIsKeptUntilItsEffectsArePublished(t *testing.T) {
	each(t, session.Config{Queues: &queues{}, Keep: time.Hour}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		w.noError(w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1, Effects: []record.Effect{effect("a")}}))
		w.retire(ann, f)
		w.now = w.now.Add(365 * 24 * time.Hour)
		if sent := w.publish(keyOfAnn); len(sent) != 1 {
			w.Errorf("sent %s", sent)
		}
		w.now = w.now.Add(time.Hour)
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Fence != 0 {
			w.Errorf("the record is kept for ever: %+v, %v", d, err)
		}
	})
}

func TestPublishingDoesNotMakeAnOpenSessionExpire(t *testing.T) {
	each(t, session.Config{Queues: &queues{}}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		w.noError(w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1, Effects: []record.Effect{effect("a")}}))
		w.publish(keyOfAnn)
		w.now = w.now.Add(10 * 365 * 24 * time.Hour)
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Fence != f {
			w.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestTheKeyOfASessionNamesItAlone(t *testing.T) {
	seen := map[record.GroupKey]bool{}
	for _, id := range []session.ID{
		{Stream: "s", Name: "a/b"},
		{Stream: "s", Group: "a", Name: "b"},
		{Stream: "s", Group: "a/b", Name: "c"},
		{Stream: "s", Group: "a", Name: "b/c"},
		{Stream: "s", Name: "a%2Fb"},
		{Stream: "s", Name: "a%252Fb"},
		{Stream: "s", Group: "%", Name: "%25"},
	} {
		key := session.Key(id)
		got, ok := session.ParseKey(key)
		if !ok || got != id || seen[key] {
			t.Errorf("%+v has the key %s, which is that of %+v", id, key.Path(), got)
		}
		seen[key] = true
	}
	for _, key := range []record.GroupKey{{Stream: "work", Group: "a/b"}, {Stream: "~sessions", Group: "a"}, {Stream: "~sessions", Group: "a/b/c/d"}} {
		if id, ok := session.ParseKey(key); ok {
			t.Errorf("%s is the key of %+v", key.Path(), id)
		}
	}
}
