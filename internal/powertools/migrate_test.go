package powertools

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

type (
	textValue   = types.AttributeValueMemberS
	numberValue = types.AttributeValueMemberN
	mapValue    = types.AttributeValueMemberM
	tableItem   = map[string]types.AttributeValue
)

// A page is a table with one page.
type page []tableItem

func (p page) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return &dynamodb.ScanOutput{Items: p}, nil
}

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// in returns a number of seconds or milliseconds.
func in(d, unit time.Duration) *numberValue {
	return &numberValue{Value: strconv.FormatInt(now().Add(d).UnixNano()/int64(unit), 10)}
}

// item returns a record, with other attributes.
func item(key, status string, expires time.Duration, more tableItem) tableItem {
	it := tableItem{"id": &textValue{Value: key}, "status": &textValue{Value: status}, "expiration": in(expires, time.Second)}
	maps.Copy(it, more)
	return it
}

func migrated(t *testing.T, to lease.Store, table page, change func(o *Options)) Counts {
	t.Helper()
	o := Options{Table: "old", Language: Python, Scope: StreamScope("jobs"), Now: now}
	if change != nil {
		change(&o)
	}
	counts, err := Migrate(t.Context(), table, to, o)
	if err != nil {
		t.Fatalf("migrate: %v; want no error", err)
	}
	return counts
}

func tokenOf(t *testing.T, s lease.Store, key string) record.Token {
	t.Helper()
	_, tokens, err := s.Load(t.Context(), nil, []record.TokenKey{record.NewTokenKey("", StreamScope("jobs"), key)})
	if err != nil {
		t.Fatal(err)
	}
	return tokens[0]
}

func TestEveryRecordIsCountedByItsEffect(t *testing.T) {
	t.Parallel()
	result := tableItem{"data": &textValue{Value: `{"n":1}`}}
	running := func(d time.Duration) tableItem { return tableItem{"in_progress_expiration": in(d, time.Millisecond)} }
	for name, c := range map[string]struct {
		item  tableItem
		want  Counts
		lease time.Duration
	}{
		"completed":                   {item("f#1", "COMPLETED", time.Hour, result), Counts{Read: 1, Copied: 1}, 0},
		"completed, without a result": {item("f#1", "COMPLETED", time.Hour, nil), Counts{Read: 1, Copied: 1}, 0},
		"expired":                     {item("f#1", "COMPLETED", 0, result), Counts{Read: 1, Expired: 1}, 0},
		"in progress":                 {item("f#1", "INPROGRESS", time.Hour, running(time.Minute)), Counts{Read: 1, Leased: 1}, time.Minute},
		"in progress, without an end": {item("f#1", "INPROGRESS", time.Hour, nil), Counts{Read: 1, Leased: 1}, time.Hour},
		"in progress, beyond its end": {item("f#1", "INPROGRESS", time.Hour, running(2*time.Hour)), Counts{Read: 1, Leased: 1}, time.Hour},
		"in progress, and over":       {item("f#1", "INPROGRESS", time.Hour, running(0)), Counts{Read: 1, Abandoned: 1}, 0},
		"of another function":         {item("g#1", "COMPLETED", time.Hour, result), Counts{Read: 1, Other: 1}, 0},
		"another status":              {item("f#1", "DONE", time.Hour, result), Counts{Read: 1, Failed: 1}, 0},
		"no key":                      {tableItem{"status": &textValue{Value: "COMPLETED"}}, Counts{Read: 1, Failed: 1}, 0},
		"no number as expiry":         {item("f#1", "COMPLETED", time.Hour, tableItem{"expiration": &textValue{Value: "soon"}}), Counts{Read: 1, Failed: 1}, 0},
		"no JSON as result":           {item("f#1", "COMPLETED", time.Hour, tableItem{"data": &textValue{Value: "{"}}), Counts{Read: 1, Failed: 1}, 0},
	} {
		store, problems := memstore.New(now), 0
		got := migrated(t, store, page{c.item}, func(o *Options) {
			o.Prefix = "f"
			o.Problem = func(string, error) { problems++ }
		})
		if diff := cmp.Diff(c.want, got); diff != "" || problems != c.want.Failed {
			t.Errorf("%s: %d problems, counts (-want +got):\n%s", name, problems, diff)
		}
		token := tokenOf(t, store, "f#1")
		switch {
		case c.want.Leased == 1 && (token.State != record.Leased || !token.Lease.Equal(now().Add(c.lease))):
			t.Errorf("%s: token %v until %v, want a lease for %v", name, token.State, token.Lease, c.lease)
		case c.want.Copied == 1 && (token.State != record.Done || !token.Expires.Equal(now().Add(time.Hour))):
			t.Errorf("%s: token %v until %v, want one that is done for an hour", name, token.State, token.Expires)
		case c.want.Leased+c.want.Copied == 0 && token.State != record.Absent:
			t.Errorf("%s: token %v, want none", name, token.State)
		}
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	store := memstore.New(now)
	table := page{item("f#1", "COMPLETED", time.Hour, nil)}
	got := migrated(t, store, table, func(o *Options) { o.DryRun = true })
	if token := tokenOf(t, store, "f#1"); got.Copied != 1 || token.State != record.Absent {
		t.Errorf("%d copied, token %v; want one that would be copied, and no token", got.Copied, token.State)
	}
}

// An execution that is repeated in the old service, after its record has expired, has a new reply.
func TestALaterRecordReplacesTheOneThatWasCopied(t *testing.T) {
	t.Parallel()
	store := memstore.New(now)
	for i, c := range []struct {
		item tableItem
		want Counts
	}{
		{item("f#1", "INPROGRESS", time.Hour, tableItem{"in_progress_expiration": in(time.Minute, time.Millisecond)}), Counts{Read: 1, Leased: 1}},
		{item("f#1", "COMPLETED", time.Hour, tableItem{"data": &textValue{Value: `1`}}), Counts{Read: 1, Copied: 1}},
		{item("f#1", "COMPLETED", time.Hour, tableItem{"data": &textValue{Value: `1`}}), Counts{Read: 1, Present: 1}},
		{item("f#1", "COMPLETED", 2*time.Hour, tableItem{"data": &textValue{Value: `2`}}), Counts{Read: 1, Copied: 1}},
		{item("f#1", "INPROGRESS", 3*time.Hour, nil), Counts{Read: 1, Present: 1}},
	} {
		if diff := cmp.Diff(c.want, migrated(t, store, page{c.item}, nil)); diff != "" {
			t.Errorf("step %d: counts (-want +got):\n%s", i+1, diff)
		}
	}
	if token := tokenOf(t, store, "f#1"); string(token.Reply.Body) != "2" {
		t.Errorf("reply %s, want 2", token.Reply.Body)
	}
}

func TestResultsBecomeReplies(t *testing.T) {
	t.Parallel()
	asJSON := http.Header{"Content-Type": {"application/json"}}
	answer := `{"statusCode":201,"headers":{"x-n":7,"Set-Cookie":"secret","Content-Type":"text/plain"},"multiValueHeaders":{"X-M":["a","b"]},"body":"aGk=","isBase64Encoded":true}`
	for name, c := range map[string]struct {
		language Language
		as       Reply
		data     types.AttributeValue
		want     *record.Reply
	}{
		"nothing":            {Python, AutoReply, nil, &record.Reply{Status: 200}},
		"JSON":               {Python, AutoReply, &textValue{Value: `{"b": 1, "a": "<"}`}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(`{"b": 1, "a": "<"}`)}},
		"an answer":          {Python, AutoReply, &textValue{Value: answer}, &record.Reply{Status: 201, Header: http.Header{"X-N": {"7"}, "X-M": {"a", "b"}, "Content-Type": {"text/plain"}}, Body: []byte("hi")}},
		"an answer, untyped": {Python, HTTPReply, &textValue{Value: `{"statusCode":200,"body":"{}"}`}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(`{}`)}},
		"an answer, as JSON": {Python, JSONReply, &textValue{Value: answer}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(answer)}},
		"no status":          {Python, AutoReply, &textValue{Value: `{"statusCode":7}`}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(`{"statusCode":7}`)}},
		"no answer":          {Python, HTTPReply, &textValue{Value: `[]`}, nil},
		"a text":             {TypeScript, AutoReply, &textValue{Value: `5`}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(`"5"`)}},
		"a text of Java":     {Java, AutoReply, &textValue{Value: `done`}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(`"done"`)}},
		"values of DynamoDB": {TypeScript, AutoReply, &mapValue{Value: tableItem{
			"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{&numberValue{Value: "12.5"}, &types.AttributeValueMemberNULL{Value: true}}},
			"b": &types.AttributeValueMemberBOOL{Value: true}, "s": &types.AttributeValueMemberSS{Value: []string{"x"}}, "x": &types.AttributeValueMemberB{Value: []byte("hi")},
		}}, &record.Reply{Status: 200, Header: asJSON, Body: []byte(`{"b":true,"l":[12.5,null],"s":["x"],"x":"aGk="}`)}},
	} {
		got, err := replyOf(c.language, c.as, c.data)
		if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != (c.want == nil) {
			t.Errorf("%s: %v, reply (-want +got):\n%s", name, err, diff)
		}
	}
}

// A store that can't be read, for example because its table is missing.
type away struct{ lease.Store }

var errAway = errors.New("no such table")

func (away) Load(context.Context, []record.GroupKey, []record.TokenKey) ([]record.Group, []record.Token, error) {
	return nil, nil, errAway
}

func TestAMissingTableOfTokensIsAnErrorBeforeAnythingIsRead(t *testing.T) {
	t.Parallel()
	counts, err := Migrate(t.Context(), page{item("f#1", "COMPLETED", time.Hour, nil)}, away{}, Options{Table: "old", Language: Python, Scope: StreamScope("jobs")})
	if !errors.Is(err, errAway) || counts.Read != 0 {
		t.Errorf("%d read, %v; want none, and %v", counts.Read, err, errAway)
	}
}
