package dedup_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// elsewhere returns a message with another group than the one that its id names.
func elsewhere(id, group string) record.Message {
	return record.Message{Stream: "s", Group: group, ID: id}
}

func TestKeptEntryRefusesItsKeyInAnotherGroup(t *testing.T) {
	for _, body := range []string{"", "send"} {
		l := newLab(t)
		w := keeper(l, byKey)
		w.process(own("a: " + body)...)
		same(t, "before and after its effects are sent", w.process(elsewhere("a", "g")), []string{"rejected key-reuse"})
		publishAll(t, w)
		same(t, "before and after its effects are sent", w.process(elsewhere("a", "g")), []string{"rejected key-reuse"})
		same(t, "in one batch with a message of its group", w.process(elsewhere("a", "g"), elsewhere("b", "a"), elsewhere("c", "a")), []string{"rejected key-reuse", "processed", "processed"})
		same(t, "after the entry became a token", w.process(elsewhere("a", "g")), []string{"rejected key-reuse"})
		same(t, "state", string(l.record("g").State), "")
	}
}

// Two messages with one key in two groups both run if they are processed at the same time. Then
// each copy is a duplicate of its own message.
func TestKeptEntryDoesNotRefuseACopyOfTheMessageThatItsTokenNames(t *testing.T) {
	l := newLab(t)
	w, other := keeper(l, byKey), keeper(l, byKey)
	w.at = between("commit g", func() { other.process(own("a")...) })
	same(t, "in another group", w.process(elsewhere("a", "g")), []string{"processed"})
	same(t, "the next one of that group, which removes its entry", w.process(elsewhere("b", "g")), []string{"processed"})
	same(t, "a copy of it", w.process(elsewhere("a", "g")), []string{"duplicate"})
	same(t, "a copy of the kept one", w.process(own("a")...), []string{"duplicate"})
}

func TestKeptEntryThatIsForgottenMarksNoTokenThatCanNotBeRead(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	l := newLab(t)
	keeper(l, stream).process(own("a")...)
	l.pass(time.Hour)
	again := own("a: again")[0]
	l.worker(stream).issue(again)
	d := &damaged{Store: l.store, token: record.NewTokenKey("", "s", "a")}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Store: d, KeepDone: true})
	same(t, "another message of the group", w.process(elsewhere("b", "a")), []string{"processed"})
	same(t, "the token of the next message under its key", l.token(again).State, record.Issued)
}

func TestKeptEntryDoesNotRefuseItsKeyForEver(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	l := newLab(t)
	w := keeper(l, stream)
	w.process(own("a")...)
	l.pass(time.Hour)
	same(t, "another group", w.process(elsewhere("a", "g")), []string{"processed"})
	same(t, "a copy of it", w.process(elsewhere("a", "g")), []string{"duplicate"})
	same(t, "its own group", w.process(own("a")...), []string{"rejected key-reuse"})
}

func TestKeptEntryThatIsForgottenTakesItsIssuedTokenAway(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	l := newLab(t)
	w := keeper(l, stream)
	m := own("a")[0]
	m.Accepted = l.clock()
	w.issue(m)
	w.process(m)
	l.pass(time.Hour)
	same(t, "another message of the group", w.process(elsewhere("b", "a")), []string{"processed"})
	same(t, "token", w.token(m).State, record.Absent)
	same(t, "record", summary(l.record("a")), "v2 state=a,b, pending=[2 b 0 effects]")
	same(t, "a late copy", w.process(m), []string{"rejected expired"})
}

func TestKeptEntryThatIsForgottenLeavesATokenThatWasIssuedSince(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	l := newLab(t)
	w := keeper(l, stream)
	w.issue(own("a")[0])
	w.process(own("a")...)
	l.pass(time.Hour)
	again := own("a: again")[0]
	w.issue(again)
	same(t, "another message of the group", w.process(elsewhere("b", "a")), []string{"processed"})
	same(t, "token", w.token(again).State, record.Issued)
	same(t, "the old content", w.process(own("a")...), []string{"rejected key-reuse"})
	same(t, "the new message", w.process(again), []string{"processed"})
	same(t, "a copy of it", w.process(again), []string{"duplicate"})
}

func TestKeptEntryGivesWayToTheNextMessageUnderItsKey(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	for _, body := range []string{"", "send"} {
		l := newLab(t)
		w := keeper(l, stream)
		w.issue(own("a: " + body)[0])
		w.process(own("a: " + body)...)
		publishAll(t, w)
		l.pass(time.Hour)
		for _, want := range []string{"processed", "duplicate"} {
			same(t, "the next message", w.process(own("a: next "+body)...), []string{want})
		}
		publishAll(t, w)
		same(t, "entries", len(l.record("a").Pending), 1)
		same(t, "a copy when it is published", w.process(own("a: next "+body)...), []string{"duplicate"})
	}
}

func TestKeptEntryIsNotTakenForOneOfAnotherPrincipal(t *testing.T) {
	l := newLab(t)
	w := keeper(l, byKey)
	w.process(own("a")...)
	other := elsewhere("a", "g")
	other.Principal = "tenant"
	same(t, "fate", w.process(other), []string{"processed"})
	if _, fresh, err := w.Issue(t.Context(), func() record.Message { m := own("a")[0]; m.Principal = "another"; return m }()); err != nil || !fresh {
		t.Errorf("got %v, %v", fresh, err)
	}
}

func TestKeptEntriesRefuseEachOfTheirKeysInABatch(t *testing.T) {
	w := keeper(newLab(t), byKey)
	w.process(own("a", "b")...)
	same(t, "fates", w.process(elsewhere("a", "g"), elsewhere("b", "g"), elsewhere("b", "h")), []string{"rejected key-reuse", "rejected key-reuse", "retry"})
}

func TestKeptEntryIsNoDoneTokenWhileItsEffectsArePending(t *testing.T) {
	w := keeper(newLab(t), byKey)
	m := own("a: send")[0]
	w.process(m)
	token, _, err := w.Issue(t.Context(), m)
	if err != nil || token.State != record.Issued {
		t.Errorf("got %v, %v", token.State, err)
	}
}

func TestKeptEntryThatCanNotBeReadIssuesNothing(t *testing.T) {
	w := keeper(newLab(t), byKey)
	w.at = nth(1, "load a", func() fault { return failsBefore })
	issued := w.IssueAll(t.Context(), own("a", "b"))
	if issued[0].Err == nil || issued[1].Err == nil {
		t.Errorf("got %+v", issued)
	}
	same(t, "token", w.token(own("a")[0]).State, record.Absent)
}

func TestKeptEntryIsFoundBesideAGroupThatCanNotBeRead(t *testing.T) {
	l := newLab(t)
	keeper(l, byKey).process(own("a")...)
	d := &damaged{Store: l.store, group: record.GroupKey{Stream: "s", Group: "bad"}}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: d, KeepDone: true})
	issued := w.IssueAll(t.Context(), own("a", "bad", "b"))
	for i, want := range []record.TokenState{record.Done, record.Issued, record.Issued} {
		if got := issued[i]; got.Err != nil || got.Token.State != want {
			t.Errorf("message %d: got %v, %v, want %v", i, got.Token.State, got.Err, want)
		}
	}
}

func TestKeptEntryRefusesItsKeyBesideATokenThatCanNotBeRead(t *testing.T) {
	l := newLab(t)
	keeper(l, byKey).process(own("a")...)
	d := &damaged{Store: l.store, token: record.NewTokenKey("", "s", "bad")}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: d, KeepDone: true})
	same(t, "fates", w.process(elsewhere("a", "g"), elsewhere("bad", "g")), []string{"rejected key-reuse", "retry"})
}

// The store wrapper of tests panics if a load repeats a key.
func TestKeptEntriesOfOneIdAreReadTogetherForAllPrincipals(t *testing.T) {
	w := keeper(newLab(t), byKey)
	w.process(own("a")...)
	batch := own("a", "a")
	batch[1].Principal = "tenant"
	issued := w.IssueAll(t.Context(), batch)
	for i, want := range []record.TokenState{record.Done, record.Issued} {
		if got := issued[i]; got.Err != nil || got.Token.State != want {
			t.Errorf("message %d: got %v, %v, want %v", i, got.Token.State, got.Err, want)
		}
	}
}

func TestKeptEntryNeverOutlivesItsGroup(t *testing.T) {
	stream := byKey
	stream.Retention = record.DefaultGroupRetention
	l := newLab(t)
	l.pass(time.Millisecond) // entries are kept for whole seconds
	w := keeper(l, stream)
	w.process(own("a", "b: send")...)
	publishAll(t, w)
	for _, name := range []string{"a", "b"} {
		if g := l.record(name); g.Expires.Before(g.Pending[0].DoneUntil) {
			t.Errorf("%s expires %s, its entry %s", name, g.Expires, g.Pending[0].DoneUntil)
		}
	}
}
