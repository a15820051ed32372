package admission_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

func TestAnIssuedTokenOfAMessageThatMayBeForgottenCountsAsAbsent(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	keeps := record.Stream{Name: "s", KeepDone: true}
	old := record.Message{Stream: "s", ID: "a", Accepted: now.Add(-record.IssuedRetention)}
	younger, unknown, request := old, old, old
	younger.Accepted, unknown.Accepted, request.Route = old.Accepted.Add(1), time.Time{}, "POST /"
	elsewhere := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}}
	group := record.Group{Key: old.GroupKey()}
	for _, x := range []struct {
		name   string
		stream record.Stream
		m      record.Message
		group  record.Group
		state  record.TokenState
		want   record.TokenState
	}{
		{"old", keeps, old, group, record.Issued, record.Absent},
		{"old and done", keeps, old, group, record.Done, record.Done},
		{"younger", keeps, younger, group, record.Issued, record.Issued},
		{"of unknown age", keeps, unknown, group, record.Issued, record.Issued},
		{"a request", keeps, request, group, record.Issued, record.Issued},
		{"in another group", keeps, old, elsewhere, record.Issued, record.Issued},
		{"on a stream with done tokens", record.Stream{Name: "s"}, old, group, record.Issued, record.Issued},
	} {
		a := &admission.Arrival{Message: x.m}
		token := record.Token{Key: a.Token(), State: x.state}
		if got := admission.Current(x.stream, a, token, &x.group, now); got.State != x.want || got.Key != token.Key {
			t.Errorf("%s: %v, want %v", x.name, got.State, x.want)
		}
	}
}
