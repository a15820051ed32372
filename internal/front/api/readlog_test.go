package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

const (
	room    = "/v1/streams/room/groups/lobby/log"
	toRoom  = "/v1/streams/room/messages"
	inLobby = "Once-Group: lobby"
)

// say sends messages to the lobby and waits until they are in its log.
func (w *world) say(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if got := w.send("POST", toRoom, "body of "+id, "Idempotency-Key: "+id, inLobby, "Content-Type: text/plain"); got.status != 202 {
			w.t.Fatal(got)
		}
		w.settled()
	}
}

// A logPage is an answer in JSON, as a caller reads it.
type logPage struct {
	Entries []struct {
		Number uint64
		Offset string
		ID     string
		Kind   string
	}
	Next string
	End  bool
}

func (p *logPage) String() string {
	var parts []string
	for _, e := range p.Entries {
		parts = append(parts, fmt.Sprintf("%d:%s", e.Number, e.ID))
	}
	return strings.Join(parts, " ")
}

// page reads a page of the lobby in JSON.
func (w *world) page(query string) (p logPage) {
	w.t.Helper()
	got := w.send("GET", room+query, "")
	if got.status != 200 || json.Unmarshal([]byte(got.body), &p) != nil {
		w.t.Fatalf("%s: %d %s", query, got.status, got.body)
	}
	if got.header.Get("Once-Next") != p.Next || (got.header.Get("Once-End") == "true") != p.End {
		w.t.Errorf("%s: the headers are %v, the page %+v", query, got.header, p)
	}
	return p
}

// end appends an end entry to the log of the lobby.
func (w *world) end() {
	w.t.Helper()
	key := record.GroupKey{Stream: "room", Group: "lobby"}
	groups, _, err := w.store.Load(w.t.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	next := groups[0]
	next.Version++
	next.Log.Last, next.Log.Ended = next.Log.Last+1, true
	entries := []record.Entry{{Number: next.Log.Last, Kind: record.EntryEnd, Time: clock.Hybrid(1)}}
	if err := w.store.Commit(w.t.Context(), record.Commit{Loaded: groups[0], Next: next, Attempt: "end", Append: log.Chunks(&next, entries)}); err != nil {
		w.t.Fatal(err)
	}
	w.hub.Appended(key)
}

func TestALogIsReadPageByPageInJSON(t *testing.T) {
	w := newWorld(t)
	if p := w.page(""); len(p.Entries) != 0 || p.End {
		t.Errorf("of a group without a record: %+v", p)
	}
	w.say("a", "b", "c")
	first := w.page("?max=2")
	if first.String() != "1:a 2:b" || first.Entries[1].Offset != first.Next || first.Entries[0].Kind != "message" {
		t.Errorf("first page: %+v", first)
	}
	second := w.page("?max=2&after=" + first.Next)
	if second.String() != "3:c" {
		t.Errorf("second page: %+v", second)
	}
	if third := w.page("?after=" + second.Next); len(third.Entries) != 0 || third.Next != second.Next {
		t.Errorf("third page: %+v", third)
	}
}

func TestAnEntryHasTheFieldsOfItsMessage(t *testing.T) {
	w, begun := newWorld(t), time.Now().Truncate(time.Millisecond) // as precise as a hybrid time
	w.send("POST", toRoom, `{ "item": 7 }`, "Idempotency-Key: order-1", inLobby, "Content-Type: application/json", "X-Own: v")
	w.settled()
	got := w.send("GET", room, "")
	var p struct{ Entries []map[string]any }
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || len(p.Entries) != 1 {
		t.Fatal(got, err)
	}
	e := p.Entries[0]
	at, err := clock.ParseHybrid(e["time"].(string))
	if err != nil || at.Time().Before(begun) || at.Time().After(time.Now()) {
		t.Errorf("time: %v %v", e["time"], err)
	}
	offset, err := log.ParseOffset(e["offset"].(string))
	if err != nil || offset.Number != 1 || offset.Incarnation == 0 {
		t.Errorf("offset: %v %v", e["offset"], err)
	}
	delete(e, "time")
	delete(e, "offset")
	want := map[string]any{
		"number": 1.0, "kind": "message", "id": "order-1", "content_type": "application/json", "headers": map[string]any{"X-Own": "v"}, "body": map[string]any{"item": 7.0},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", got.header)
	}
}

func TestABodyIsJSONOrTextOrBase64(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ contentType, body, want string }{
		{"application/json", "{\n \"a\": [1, \"x\"]\n}", `"body":{"a":[1,"x"]}`},
		{"application/problem+json; charset=utf-8", `12345678901234567890.10`, `"body":12345678901234567890.10`},
		{"application/json", `{"a":`, `"body":"{\"a\":"`},
		{"application/json", "\"\xff\"", `"body_base64":"Iv8i"`},
		{"text/plain", "line\r\n\t\"quoted\" \\ \x01 ü\u2028", `"body":"line\r\n\t\"quoted\" \\ \u0001 ü` + "\u2028" + `"`},
		{"image/png", "\xff\x00", `"body_base64":"/wA="`},
	} {
		w.send("POST", toRoom, c.body, fmt.Sprintf("Idempotency-Key: %d", i), inLobby, "Content-Type: "+c.contentType)
		w.settled()
		for _, accept := range []string{"application/json", "application/x-ndjson"} {
			got := w.send("GET", fmt.Sprintf("%s?after=%s", room, w.before(i+1)), "", "Accept: "+accept)
			if !strings.Contains(got.body, c.want) {
				t.Errorf("%s %q: %s", c.contentType, c.body, got.body)
			}
			if lines := strings.Count(got.body, "\n"); lines != 1 {
				t.Errorf("%s %q: %d lines: %s", c.contentType, c.body, lines, got.body)
			}
		}
	}
}

// before returns the offset before an entry of the lobby.
func (w *world) before(number int) string {
	w.t.Helper()
	o, err := log.ParseOffset(w.page("?max=1").Next)
	if err != nil {
		w.t.Fatal(err)
	}
	o.Number = uint64(number) - 1
	return o.String()
}

func TestAllFormatsHaveTheSameEntries(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b", "c")
	want := "1:a 2:b 3:c"
	lines := w.send("GET", room, "", "Accept: application/x-ndjson")
	var got []string
	for line := range strings.Lines(lines.body) {
		var e struct {
			Number   int
			ID, Body string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Body != "body of "+e.ID {
			t.Errorf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprintf("%d:%s", e.Number, e.ID))
	}
	if strings.Join(got, " ") != want || lines.header.Get("Once-Next") != w.page("").Next {
		t.Errorf("lines: %v %v", lines, got)
	}

	sequence := w.send("GET", room, "", "Accept: application/cbor-seq")
	got = nil
	for rest := []byte(sequence.body); len(rest) > 0; {
		var e struct {
			Number int
			ID     string
			Body   []byte
		}
		var err error
		if rest, err = cbor.UnmarshalFirst(rest, &e); err != nil || string(e.Body) != "body of "+e.ID {
			t.Fatalf("%x: %v", rest, err)
		}
		got = append(got, fmt.Sprintf("%d:%s", e.Number, e.ID))
	}
	if strings.Join(got, " ") != want || sequence.header.Get("Once-Next") != w.page("").Next || sequence.header.Get("Content-Type") != "application/cbor-seq" {
		t.Errorf("sequence: %v %v", sequence.header, got)
	}

	events := w.follow("")
	defer events.close()
	got = nil
	for range 3 {
		e := events.next()
		got = append(got, fmt.Sprintf("%d:%s", e.entry.Number, e.entry.ID))
		if e.id != e.entry.Offset {
			t.Errorf("event %+v", e)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("events: %v", got)
	}
}

func TestAWaitingReaderIsWokenByTheNextCommit(t *testing.T) {
	w := newWorld(t)
	w.say("a")
	answers := make(chan logPage)
	go func() { answers <- w.page("?wait=20&after=" + w.before(2)) }()
	w.followed(1)
	w.say("b")
	if p := <-answers; p.String() != "2:b" {
		t.Errorf("%+v", p)
	}
	// the first entry of a group wakes a reader too
	key := record.GroupKey{Stream: "room", Group: "new"}
	go func() { answers <- w.pageOf("/v1/streams/room/groups/new/log?wait=20&after=now") }()
	w.followed(1)
	w.send("POST", toRoom, "x", "Idempotency-Key: first", "Once-Group: new")
	if p := <-answers; p.String() != "1:first" {
		t.Errorf("%s: %+v", key, p)
	}
	w.followed(0)
}

func (w *world) pageOf(path string) (p logPage) {
	w.t.Helper()
	got := w.send("GET", path, "")
	if got.status != 200 || json.Unmarshal([]byte(got.body), &p) != nil {
		w.t.Errorf("%s: %d %s", path, got.status, got.body)
	}
	return p
}

// followed waits until there is a number of followers.
func (w *world) followed(n int) {
	w.t.Helper()
	eventually.Succeeds(w.t, func() error {
		if got := w.hub.Followers(); got != n {
			return fmt.Errorf("there are %d followers, not %d", got, n)
		}
		return nil
	})
}

func TestAReaderThatWaitsInVainGetsAnEmptyPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, inMemory)
		w.say("a")
		began := time.Now()
		p := w.page("?wait=10&after=now")
		if took := time.Since(began); len(p.Entries) != 0 || p.Next != w.before(2) || took != 10*time.Second {
			t.Errorf("after %v: %+v", took, p)
		}
		began = time.Now()
		go w.hub.Close()
		if p := w.page("?wait=20&after=now"); len(p.Entries) != 0 || p.Next != w.before(2) || time.Since(began) > 0 {
			t.Errorf("when the server ends, after %v: %+v", time.Since(began), p)
		}
	})
}

func TestFromNowSkipsWhatIsInTheLog(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b")
	now := w.page("?after=now")
	w.say("c")
	if got := w.page("?after=" + now.Next); len(now.Entries) != 0 || got.String() != "3:c" {
		t.Errorf("%+v, then %+v", now, got)
	}
}

func TestAReaderSeesItsOwnPrincipalOnly(t *testing.T) {
	w := newWorld(t)
	w.send("POST", toRoom, "x", "Idempotency-Key: a", inLobby, "Test-Principal: ann")
	w.settled()
	for _, accept := range []string{"application/json", "application/x-ndjson", "application/cbor-seq"} {
		own := w.send("GET", room, "", "Accept: "+accept, "Test-Principal: ann")
		other := w.send("GET", room, "", "Accept: "+accept, "Test-Principal: bob")
		if !strings.Contains(own.body, "principal") || strings.Contains(other.body, "ann") {
			t.Errorf("%s: ann reads %q, bob reads %q", accept, own.body, other.body)
		}
	}
	if got := w.send("GET", room, "", "Test-Principal: intruder"); got.status != 403 {
		t.Error(got)
	}
}

func TestHeadHasThePositionAndNeverWaits(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b")
	for _, accept := range []string{"application/json", "application/cbor-seq", "text/event-stream"} {
		got := w.send("HEAD", room+"?after=now&wait=20", "", "Accept: "+accept)
		if got.status != 200 || got.body != "" || got.header.Get("Content-Type") != accept {
			t.Errorf("%s: %+v", accept, got)
		}
		if next := got.header.Get("Once-Next"); next != w.before(3) {
			t.Errorf("%s: the end is at %s", accept, next)
		}
	}
}

func TestAGroupWithSlashesHasALog(t *testing.T) {
	w := newWorld(t)
	w.send("POST", toRoom, "x", "Idempotency-Key: a", "Once-Group: a/b c")
	w.settled()
	for _, path := range []string{"/v1/streams/room/groups/a%2Fb%20c/log", "/v1/streams/room/groups/a/b%20c/log"} {
		if got := w.pageOf(path); got.String() != "1:a" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := w.send("POST", "/v1/streams/room/groups/a/b/log", ""); got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
		t.Error(got)
	}
}
