package admission_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon }

// newIssuer returns an issuer for one stream, s, and its store.
func newIssuer(how record.Admission) (*admission.Issuer, *memstore.Store) {
	store := memstore.New(clock)
	return newIssuerOn(how, store, slog.DiscardHandler), store
}

func newIssuerOn(how record.Admission, store record.Store, log slog.Handler) *admission.Issuer {
	return newIssuerWith(how, store, &recorded{}, log)
}

func newIssuerWith(how record.Admission, store record.Store, queues record.Queues, log slog.Handler) *admission.Issuer {
	names := 0
	return admission.New(admission.Config{
		Streams: record.Streams{"s": {Name: "s", Admission: how}}, Store: store, Queues: queues, Now: clock, Log: slog.New(log), LateDelay: time.Minute,
		Recordless: func(_ record.Stream, a *admission.Arrival) bool { return a.ID == "free" },
		NewID:      func() string { names++; return strconv.Itoa(names) },
	})
}

// kept returns the stored token of a message.
func kept(t *testing.T, store *memstore.Store, m record.Message) record.Token {
	t.Helper()
	_, tokens, err := store.Load(t.Context(), nil, []record.TokenKey{(&admission.Arrival{Message: m}).Token()})
	if err != nil {
		t.Fatal(err)
	}
	return tokens[0]
}

func TestAMessageWithAnIssuedTokenRunsAtAnyAge(t *testing.T) {
	a := &admission.Arrival{Message: record.Message{Stream: "s", ID: "a", Accepted: noon.Add(-25 * 24 * time.Hour)}}
	issued := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint()}
	if fate, fresh := admission.Admit(record.Stream{Name: "s"}, a, issued, noon); !fresh {
		t.Errorf("its fate is %+v", fate)
	}
	if fate, fresh := admission.Admit(record.Stream{Name: "s"}, a, record.Token{Key: a.Token()}, noon); fresh || fate.Reason != record.ReasonExpired {
		t.Errorf("without a token its fate is %+v", fate)
	}
}

func TestIssuingOtherContentKeepsTheReasonOfADeadLetter(t *testing.T) {
	desk, store := newIssuer(record.ByKey)
	m := record.Message{Stream: "s", ID: "a", Body: []byte("content")}
	if _, fresh, err := desk.Issue(t.Context(), m); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if err := desk.Refuse(t.Context(), []record.Refused{{Message: m, Reason: record.ReasonAttempts}}); err != nil {
		t.Fatal(err)
	}
	other := m
	other.Body = []byte("another")
	_, _, err := desk.Issue(t.Context(), other)
	if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonKeyReuse {
		t.Errorf("another content: %v", err)
	}
	if token := kept(t, store, m); token.Reason != record.ReasonAttempts {
		t.Errorf("the token says %q", token.Reason)
	}
	if _, fresh, err := desk.Issue(t.Context(), m); err != nil || fresh {
		t.Errorf("the same content: fresh %v, %v", fresh, err)
	}
	if token := kept(t, store, m); token.Reason != "" {
		t.Errorf("the token of what was sent again says %q", token.Reason)
	}
}

func TestOnlyOneTimeRequestsAreStoredWithTheirTokens(t *testing.T) {
	desk, store := newIssuer(record.ByKey)
	for route, stored := range map[string]bool{"": false, "PUT /orders": true} {
		m := record.Message{Stream: "s", ID: "id " + route, Route: route}
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if token := kept(t, store, m); (token.Request != nil) != stored {
			t.Errorf("route %q: stored %v", route, token.Request)
		}
	}
}

func TestIssuingAgainWritesNothing(t *testing.T) {
	desk, store := newIssuer(record.ByKey)
	m := record.Message{Stream: "s", ID: "a"}
	for _, fresh := range []bool{true, false} {
		if _, made, err := desk.Issue(t.Context(), m); err != nil || made != fresh {
			t.Fatal(made, err)
		}
	}
	if token := kept(t, store, m); token.Owner != "1" {
		t.Errorf("the token is that of issue %s", token.Owner)
	}
}

func TestIssuingAgainRenewsAnOldToken(t *testing.T) {
	for left, renewed := range map[time.Duration]bool{29 * 24 * time.Hour: false, 29*24*time.Hour - 1: true, time.Minute: true} {
		desk, store := newIssuer(record.ByToken)
		m := record.Message{Stream: "s", ID: "a"}
		a := admission.Arrival{Message: m}
		old := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Owner: "first", Expires: noon.Add(left)}
		if _, err := store.SwapToken(t.Context(), record.Token{Key: a.Token()}, old); err != nil {
			t.Fatal(err)
		}
		token, fresh, err := desk.Issue(t.Context(), m)
		if err != nil || fresh {
			t.Fatal(fresh, err)
		}
		want := old.Expires
		if renewed {
			want = noon.Add(record.IssuedRetention)
		}
		if stored := kept(t, store, m); !stored.Expires.Equal(want) || !token.Expires.Equal(want) {
			t.Errorf("with %s left: expires %s, want %s", left, stored.Expires, want)
		}
	}
}

func TestARequestBeingDeletedKeepsItsStatus(t *testing.T) {
	desk, store := newIssuer(record.ByKey)
	m := record.Message{Stream: "s", ID: "a", Route: "POST /"}
	a := admission.Arrival{Message: m}
	deleting := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Owner: "delete", Reason: record.ReasonDeleted, Expires: noon.Add(time.Minute)}
	if _, err := store.SwapToken(t.Context(), record.Token{Key: a.Token()}, deleting); err != nil {
		t.Fatal(err)
	}
	if token, fresh, err := desk.Issue(t.Context(), m); err != nil || fresh || token.State != record.Issued {
		t.Errorf("put again: %+v, %v, %v", token, fresh, err)
	}
	if state, err := desk.Status(t.Context(), m); err != nil || state.Status != admission.StatusAccepted {
		t.Errorf("status %q, %v", state.Status, err)
	}
	if token := kept(t, store, m); token.Owner != "delete" || !token.Deleting() {
		t.Errorf("it is not being deleted any more: %+v", token)
	}
	m.Body = []byte("other")
	if _, _, err := desk.Issue(t.Context(), m); err == nil {
		t.Error("another content was taken")
	}
}

// A meddler is a store in which another writer is faster, or which fails, when the reason of a
// refusal is written or removed.
type meddler struct {
	record.Store
	faster *record.Token
	err    error
}

func (s *meddler) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if old.State == record.Issued {
		if s.err != nil {
			return record.Token{}, s.err
		}
		if _, err := s.Store.SwapToken(ctx, old, *s.faster); err != nil {
			return record.Token{}, err
		}
	}
	return s.Store.SwapToken(ctx, old, next)
}

func TestIssuingAgainReturnsTheTokenIfAnotherWorkerChangedIt(t *testing.T) {
	m := record.Message{Stream: "s", ID: "a"}
	a := &admission.Arrival{Message: m}
	desk, store := newIssuer(record.ByKey)
	if _, _, err := desk.Issue(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := desk.Refuse(t.Context(), []record.Refused{{Message: m, Reason: record.ReasonAttempts}}); err != nil {
		t.Fatal(err)
	}
	done := record.Token{Key: a.Token(), State: record.Done, Fingerprint: a.Fingerprint(), Stream: "s", Group: a.GroupName(), Expires: noon.Add(time.Hour)}
	token, fresh, err := newIssuerOn(record.ByKey, &meddler{Store: store, faster: &done}, slog.DiscardHandler).Issue(t.Context(), m)
	if err != nil || fresh || token.State != record.Done {
		t.Errorf("token %+v, fresh %v, %v", token, fresh, err)
	}
}

func TestAFailedNoteOfARefusalIsLoggedUnlessAnotherWorkerChangedTheToken(t *testing.T) {
	m := record.Message{Stream: "s", ID: "a"}
	a := &admission.Arrival{Message: m}
	done := record.Token{Key: a.Token(), State: record.Done, Fingerprint: a.Fingerprint(), Stream: "s", Group: a.GroupName(), Expires: noon.Add(time.Hour)}
	for name, c := range map[string]struct {
		err    error
		logged bool
	}{"it fails": {errAway, true}, "it has moved on": {nil, false}} {
		desk, store := newIssuer(record.ByKey)
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		desk = newIssuerOn(record.ByKey, &meddler{Store: store, faster: &done, err: c.err}, slog.NewTextHandler(&log, nil))
		if err := desk.Refuse(t.Context(), []record.Refused{{Message: m, Reason: record.ReasonAttempts}}); err != nil {
			t.Fatal(err)
		}
		if logged := strings.Contains(log.String(), "refusal not noted"); logged != c.logged {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}

func TestANumberedMessageIsNamedByItsNumberNotByItsID(t *testing.T) {
	for how, want := range map[record.Admission]string{record.BySequence: "p/0/3", record.ByKey: "a"} {
		a := &admission.Arrival{Message: record.Message{Stream: "s", ID: "a", Source: "p", Sequence: 3}}
		if _, err := a.Check(record.Streams{"s": {Name: "s", Admission: how}}); err != nil || a.Name() != want {
			t.Errorf("admitted by %v it is %q: %v", how, a.Name(), err)
		}
	}
}

// hasSource commits a group that knows source p.
func hasSource(t *testing.T, store *memstore.Store, source record.Source) {
	t.Helper()
	m := record.Message{Stream: "s", Source: "p", Epoch: source.Epoch}
	next := record.Group{Key: m.GroupKey(), Version: 1, Sources: map[string]record.Source{m.SourceKey(): source}}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: m.GroupKey()}, Next: next, Attempt: "x"}); err != nil {
		t.Fatal(err)
	}
}

func TestOfOtherReportsOtherContentIfARecordShowsIt(t *testing.T) {
	m, other := record.Message{Stream: "s", ID: "a", Body: []byte("content")}, record.Message{Stream: "s", ID: "a", Body: []byte("another")}
	a := &admission.Arrival{Message: m}
	for state, known := range map[record.Token]bool{
		{State: record.Done}: true,
		// it belongs to no message any more
		{State: record.Done, Reason: record.ReasonDeleted}: false,
		{State: record.Issued}:                             false, // Issue compares the content
	} {
		desk, store := newIssuer(record.ByKey)
		state.Key, state.Fingerprint, state.Expires = a.Token(), a.Fingerprint(), noon.Add(time.Hour)
		if _, err := store.SwapToken(t.Context(), record.Token{Key: a.Token()}, state); err != nil {
			t.Fatal(err)
		}
		got, err := desk.Status(t.Context(), m)
		if err != nil || got.OfOther(&m) || got.OfOther(&other) != known {
			t.Errorf("token %v %s: the same content %v, another one %v, %v", state.State, state.Reason, got.OfOther(&m), got.OfOther(&other), err)
		}
	}
	desk, store := newIssuer(record.ByKey)
	entry := record.Pending{Number: 1, Token: a.Token()}
	entry.Fingerprint = entry.Print(a.Fingerprint())
	next := record.Group{Key: m.GroupKey(), Version: 1, Last: 1, Pending: []record.Pending{entry}}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: m.GroupKey()}, Next: next, Attempt: "x"}); err != nil {
		t.Fatal(err)
	}
	if got, err := desk.Status(t.Context(), m); err != nil || got.Status != admission.StatusCommitted || got.OfOther(&m) || !got.OfOther(&other) {
		t.Errorf("pending, it is %s, the same content %v, another one %v, %v", got.Status, got.OfOther(&m), got.OfOther(&other), err)
	}
	desk, store = newIssuer(record.BySequence)
	hasSource(t, store, record.Source{Next: 2})
	passed := record.Message{Stream: "s", Source: "p", Sequence: 1}
	if got, err := desk.Status(t.Context(), passed); err != nil || got.Status != admission.StatusDone || got.OfOther(&passed) {
		t.Errorf("passed, it is %s, another content %v, %v", got.Status, got.OfOther(&passed), err)
	}
}

func TestTokensIssuedTogetherAreIssuedAsOneByOne(t *testing.T) {
	desk, store := newIssuer(record.ByKey)
	other := record.Message{Stream: "s", ID: "reused", Body: []byte("other")}
	again := record.Message{Stream: "s", ID: "again"}
	for _, m := range []record.Message{other, again} {
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	results := desk.IssueAll(t.Context(), []record.Message{
		{Stream: "s", ID: "new"}, {Stream: "s", ID: "reused"}, {Stream: "s"}, again, {Stream: "none", ID: "x"}, {Stream: "s", ID: "new too"},
	})
	var reused *record.RefusedError
	var invalid *record.InvalidError
	for i, right := range []bool{
		results[0].Err == nil && results[0].Fresh && results[0].Token.State == record.Issued,
		errors.As(results[1].Err, &reused) && reused.Reason == record.ReasonKeyReuse,
		errors.As(results[2].Err, &invalid),
		results[3].Err == nil && !results[3].Fresh && results[3].Token.State == record.Issued,
		errors.Is(results[4].Err, record.ErrNoStream),
		results[5].Err == nil && results[5].Fresh,
	} {
		if !right {
			t.Errorf("message %d: %+v", i, results[i])
		}
	}
	if len(results) != 6 || kept(t, store, record.Message{Stream: "s", ID: "new too"}).State != record.Issued {
		t.Errorf("%d results; the last token: %v", len(results), kept(t, store, record.Message{Stream: "s", ID: "new too"}))
	}
}
