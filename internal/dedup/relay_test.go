package dedup_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

var relay = record.Stream{Name: "s", Stateless: true, Unordered: true}

func TestAMessageWithoutAGroupRecordIsSentUnderItsOwnIdentityAndMarked(t *testing.T) {
	w := newLab(t).worker(relay)
	same(t, "fates", w.process(keyed("a: send=out reply")...), []string{"processed with a"})
	same(t, "calls", w.calls(), []string{"load +1 tokens", "run a", "send out s/a", "mark 1"})
	same(t, "record", w.group().Version, 0)
	same(t, "a duplicate", w.process(keyed("a: send=out reply")...), []string{"duplicate with a"})
	same(t, "calls", w.calls(), []string{"load +1 tokens"})
}

func TestWhichMessagesNeedAGroupRecord(t *testing.T) {
	with := func(change func(s *record.Stream)) record.Stream {
		s := record.Stream{Name: "s", Stateless: true}
		change(&s)
		return s
	}
	keep := func(*record.Message) {}
	ungrouped := func(m *record.Message) { m.Group = "" }
	for _, c := range []struct {
		name   string
		stream record.Stream
		change func(m *record.Message)
		want   bool
	}{
		{"ordered, with a group", with(func(*record.Stream) {}), keep, true},
		{"ordered, without a group", with(func(*record.Stream) {}), ungrouped, false},
		{"unordered, with a group", relay, keep, false},
		{"with state", with(func(s *record.Stream) { s.Stateless, s.Unordered = false, true }), ungrouped, true},
		{"numbered", with(func(s *record.Stream) { s.Admission, s.Unordered = record.BySequence, true }), func(m *record.Message) { m.Source, m.Sequence = "p", 1 }, true},
		{"a one-time request", relay, func(m *record.Message) { m.Route = "POST /" }, true},
		{"to a destination that counts", with(func(s *record.Stream) { s.Events = []string{"out", "next"} }), ungrouped, true},
		{"to one that does not", with(func(s *record.Stream) { s.Events = []string{"out"} }), ungrouped, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLab(t).worker(c.stream)
			m := keyed("a: send")[0]
			c.change(&m)
			if m.Route != "" {
				if _, _, err := w.Issue(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "fates", w.process(m), []string{"processed"})
			same(t, "record", w.record(m.GroupName()).Version > 0, c.want)
		})
	}
}

func TestAFailedRelayIsRetriedUnderTheSameIdentity(t *testing.T) {
	w := newLab(t).worker(relay)
	w.at = once("send side", failsAfter)
	same(t, "fates", w.process(keyed("a: send=out+side", "b: send", "c: send=side")...), []string{"retry", "processed", "processed"})
	same(t, "a", w.token(keyed("a")[0]).State, record.Absent)
	same(t, "fates", w.process(keyed("a: send=out+side")...), []string{"processed"})
	same(t, "out", w.arrived("out"), []string{"s/a", "s/b"})
	same(t, "side", w.arrived("side"), []string{"s/a", "s/c"})
}

func TestIdentitiesOfRelayedMessagesAreUnique(t *testing.T) {
	w := newLab(t).worker(relay)
	batch := keyed("a: send send", "a/1: send", "a@1: send", "a%2F1: send", "a@@2: send", "a: send")
	batch[5].Principal = "alice"
	got := w.process(batch...)
	same(t, "fates", slices.Compact(got), []string{"processed"})
	same(t, "identities", w.arrived("out"), []string{"s/a", "s/a@@2", "s/a%2F1", "s/a%401", "s/a%252F1", "s/a%40%402", "s/a@alice"})
}

func TestARelayedKeyIsRefusedForAnotherContent(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []record.Message
		issued []record.Message
		batch  []record.Message
		want   []string
	}{
		{"within a batch", nil, nil, keyed("a: reply", "a", "a: reply"), []string{"processed with a", "rejected key-reuse", "duplicate with a"}},
		{"once it is done", keyed("a: reply"), nil, keyed("a", "a: reply"), []string{"rejected key-reuse", "duplicate with a"}},
		{"once it is issued", nil, keyed("a: reply"), keyed("a", "a: reply"), []string{"rejected key-reuse", "processed with a"}},
		{"after a refusal", nil, nil, keyed("a: reject", "a", "a: reject"), []string{"rejected rejected", "rejected key-reuse", "duplicate with no"}},
		{"after a failure", nil, nil, keyed("a: fail", "a", "a: fail"), []string{"retry", "retry", "retry"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLab(t).worker(relay)
			w.process(c.before...)
			for _, m := range c.issued {
				if _, _, err := w.Issue(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "fates", w.process(c.batch...), c.want)
		})
	}
}

func TestARelayedKeyInTwoGroupsIsRunInOne(t *testing.T) {
	w := newLab(t).worker(relay)
	batch := keyed("a: send", "a: send")
	batch[1].Group = "h"
	same(t, "fates", w.process(batch...), []string{"processed", "rejected key-reuse"})
}

func TestAFailedRelaySettlesNothing(t *testing.T) {
	for _, call := range []string{"load", "mark"} {
		w := newLab(t).worker(relay)
		w.at = always(call, failsBefore)
		same(t, "fates", w.process(keyed("a", "b")...), []string{"retry", "retry"})
		w.at = nil
		same(t, "fates", w.process(keyed("a", "b")...), []string{"processed", "processed"})
	}
}

func TestAStatelessHandlerCanKeepNothing(t *testing.T) {
	l := newLab(t)
	l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error { a.State = []byte("x"); return nil }
	w := l.worker(relay)
	for i, o := range w.Process(t.Context(), keyed("a", "b: blob=k")) {
		if !errors.As(o.Err, new(*record.HandlerError)) {
			t.Errorf("message %d: got %+v", i, o)
		}
	}
	same(t, "staged", len(l.staged), 0)
}

func TestARelayedDeliveryHasTheRetentionOfItsIdentity(t *testing.T) {
	s := relay
	s.Retention = time.Hour
	w := newLab(t).worker(s)
	w.process(keyed("a: send")...)
	d := w.sent[0]
	same(t, "delivery", []any{d.Retention, d.Number, d.Group, d.Target}, []any{time.Hour, uint64(0), "g", "g"})
}

func TestARelayByTokensRefusesMessagesWithoutAToken(t *testing.T) {
	s := relay
	s.Admission = record.ByToken
	w := newLab(t).worker(s)
	same(t, "fates", w.process(keyed("a: send")...), []string{"rejected unknown"})
	same(t, "sent", len(w.sent), 0)
}

func TestARefusalOfARelayedMessageTriggersNothing(t *testing.T) {
	w := newLab(t).worker(relay)
	if err := w.Refuse(t.Context(), []record.Refused{{Message: keyed("a")[0], Reason: record.ReasonKeyReuse}}); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"dead a key-reuse"})
}
