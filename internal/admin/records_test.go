package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
)

// A list has records of each kind; its errors are those of reading groups and tokens.
type list struct {
	groups                 []record.Group
	tokens                 []record.Token
	groupsFail, tokensFail error
	tokensRead             bool
}

func (l *list) Groups(_ context.Context, _ string, after record.GroupKey, _ int) ([]record.Group, error) {
	if after.Group != "" {
		return nil, l.groupsFail
	}
	return l.groups, l.groupsFail
}

func (l *list) Tokens(_ context.Context, after record.TokenKey, _ int) ([]record.Token, error) {
	l.tokensRead = true
	if after != (record.TokenKey{}) {
		return nil, l.tokensFail
	}
	return l.tokens, l.tokensFail
}

func (*list) Expire(context.Context, int) (int, error) { return 0, nil }

func TestATallyCountsTheWorkInFlightOfEachStream(t *testing.T) {
	now := time.Now()
	sent := []record.Effect{{To: []string{"out"}}}
	token := func(id, stream string, state record.TokenState, lease time.Time) record.Token {
		return record.Token{Key: record.NewTokenKey("", stream, id), Stream: stream, State: state, Lease: lease}
	}
	l := &list{
		groups: []record.Group{
			{Key: record.GroupKey{Stream: "orders", Group: "a"}, Version: 1, Pending: []record.Pending{{Number: 1}, {Number: 2, Effects: sent}}},
			{Key: record.GroupKey{Stream: "orders", Group: "b"}, Version: 1, Sources: map[string]record.Source{"till": {Held: record.Ranges{{First: 3, Last: 5}}}}},
			{Key: record.GroupKey{Stream: "old", Group: "c"}, Version: 1},
			{Key: record.GroupKey{Stream: "own", Group: "8"}, Version: 1, Pending: []record.Pending{{Number: 1, Token: record.NewTokenKey("", "own", "8"), DoneUntil: now.Add(time.Hour)}}},
			{Key: record.GroupKey{Stream: "own", Group: "9"}, Version: 1, Pending: []record.Pending{{Number: 1, Token: record.NewTokenKey("", "own", "9"), DoneUntil: now}}},
		},
		tokens: []record.Token{
			token("1", "orders", record.Issued, time.Time{}), token("2", "orders", record.Leased, now.Add(time.Second)),
			token("3", "orders", record.Leased, now), token("4", "orders", record.Done, time.Time{}), token("5", "old", record.Done, time.Time{}),
			token("8", "own", record.Issued, time.Time{}), token("10", "own", record.Issued, time.Time{}),
			token("6", "", record.Done, time.Time{}), token("7", "", record.Leased, now.Add(time.Second)),
		},
	}
	got, err := admin.Tally(t.Context(), l, []string{"orders", "empty"}, now, func(error) {})
	want := admin.Stats{
		Streams: []admin.StreamStats{
			{Stream: "empty"},
			{Stream: "old", Groups: 1, TokenStats: admin.TokenStats{Done: 1}},
			{Stream: "orders", Groups: 2, Pending: 1, Held: 3, TokenStats: admin.TokenStats{Issued: 1, Leased: 1, Done: 1}},
			{Stream: "own", Groups: 2, TokenStats: admin.TokenStats{Issued: 1, Done: 1}},
		},
		Decorators: &admin.TokenStats{Leased: 1, Done: 1},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestATallyThatCanNotReadEverythingIsAnError(t *testing.T) {
	away := errors.New("away")
	for name, l := range map[string]*list{"groups": {groupsFail: away}, "tokens": {tokensFail: away}} {
		got, err := admin.Tally(t.Context(), l, nil, time.Now(), func(error) {})
		if !errors.Is(err, away) || got.Streams != nil || name == "groups" && l.tokensRead {
			t.Errorf("%s: %v, %v; tokens read: %v", name, got, err, l.tokensRead)
		}
	}
}

func TestTheInfoOfAGroupNamesIt(t *testing.T) {
	expires := time.Now()
	g := record.Group{
		Key: record.GroupKey{Stream: "orders", Group: "a"}, Version: 7, Last: 9, Expires: expires,
		Pending: []record.Pending{{Number: 9, Identity: "1", Attempt: "x", Effects: []record.Effect{{}, {}}, Sent: []record.Sent{{}}}},
	}
	want := admin.GroupInfo{
		Stream: "orders", Group: "a", Version: 7, LastNumber: 9, Expires: &expires, Sources: []admin.SourceInfo{},
		Pending: []admin.Pending{{Number: 9, ID: "1", Attempt: "x", Effects: 2, Sent: 1}},
	}
	got, err := admin.ListGroups(t.Context(), &list{groups: []record.Group{g}}, admin.GroupsOptions{Stream: "orders"}, nil)
	if d := cmp.Diff([]admin.GroupInfo{want}, got); d != "" || err != nil {
		t.Error(d, err)
	}
}
