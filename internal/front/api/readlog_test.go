package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
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
	w := newWorld(t)
	w.send("POST", toRoom, `{ "item": 7 }`, "Idempotency-Key: order-1", inLobby, "Content-Type: application/json", "X-Own: v")
	w.settled()
	got := w.send("GET", room, "")
	var p struct{ Entries []map[string]any }
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || len(p.Entries) != 1 {
		t.Fatal(got, err)
	}
	e := p.Entries[0]
	at, err := clock.ParseHybrid(e["time"].(string))
	if err != nil || time.Since(at.Time()).Abs() > time.Minute {
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
	for end := time.Now().Add(time.Minute); w.hub.Followers() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("there are %d followers, not %d", w.hub.Followers(), n)
		}
	}
}

func TestAReaderThatWaitsInVainGetsAnEmptyPage(t *testing.T) {
	w := newWorld(t)
	w.say("a")
	began := time.Now()
	p := w.page("?wait=1&after=now")
	if took := time.Since(began); len(p.Entries) != 0 || p.Next != w.before(2) || took < time.Second || took > time.Minute {
		t.Errorf("after %v: %+v", took, p)
	}
	go w.hub.Close()
	if p := w.page("?wait=20&after=now"); len(p.Entries) != 0 || p.Next != w.before(2) {
		t.Errorf("when the server ends: %+v", p)
	}
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

func TestWhatALogCannotAnswerIsAProblem(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b")
	ahead := w.before(4)
	other := "0" + w.before(2)[1:]
	for _, c := range []struct{ path, accept, want, detail string }{
		{"/v1/streams/nowhere/groups/g/log", "", "404 unknown-stream", "nowhere"},
		{"/v1/streams/orders/groups/g/log", "", "404 no-log", "log: {retain: 7d}"},
		{"/v1/streams/room/groups/g", "", "404 unknown-route", ""},
		{"/v1/streams/room/groups/%00/log", "", "400 malformed-request", "name"},
		{room + "?after=1", "", "400 malformed-request", "offset"},
		{room + "?after=" + ahead + "x", "", "400 malformed-request", "offset"},
		{room + "?after=now&after=now", "", "400 malformed-request", "once"},
		{room + "?max=0", "", "400 malformed-request", "max"},
		{room + "?wait=-1", "", "400 malformed-request", "wait"},
		{room + "?from=now", "", "400 malformed-request", "after, max and wait"},
		{room + "?after=%zz", "", "400 malformed-request", "query"},
		{room, "image/png", "406 not-acceptable", "text/event-stream"},
		{room, "application/json;q=0", "406 not-acceptable", ""},
		{room + "?after=" + ahead, "", "409 ahead", w.before(3)},
		{room + "?after=" + ahead, "text/event-stream", "409 ahead", w.before(3)},
		{room + "?after=" + other, "", "410 expired", "begun again"},
		{"/v1/streams/room/groups/g/log?after=" + ahead, "", "410 expired", "has expired"},
	} {
		var headers []string
		if c.accept != "" {
			headers = append(headers, "Accept: "+c.accept)
		}
		got := w.send("GET", c.path, "", headers...)
		var p struct{ Type, Detail string }
		if err := json.Unmarshal([]byte(got.body), &p); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
		_, name, _ := strings.Cut(p.Type, "#")
		if fmt.Sprintf("%d %s", got.status, name) != c.want || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %d %s", c.path, got.status, got.body)
		}
	}
}

func TestExpiredEntriesAreAProblemWithThePlaceToContinue(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b")
	again := "0" + w.before(2)[1:] // of an earlier life of the group
	got := w.send("GET", room+"?after="+again, "")
	var p struct {
		First int
		Next  string
	}
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.status != 410 || p.First != 1 {
		t.Fatal(got, err)
	}
	if page := w.page("?after=" + p.Next); page.String() != "1:a 2:b" {
		t.Errorf("%+v", page)
	}
}

func TestAReaderBeyondTheLimitOfWaitingReadersIsRefused(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) { o.MaxFollowing = 1 })
	events := w.follow("")
	w.followed(1)
	for _, accept := range []string{"application/json", "text/event-stream"} {
		if got := w.send("GET", room+"?wait=20", "", "Accept: "+accept); got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %+v", accept, got)
		}
	}
	if got := w.page(""); len(got.Entries) != 0 {
		t.Error("a reader who does not wait is not counted")
	}
	events.close()
	w.followed(0)
	w.say("a")
	if got := w.page("?wait=20"); got.String() != "1:a" {
		t.Errorf("after the other has gone: %+v", got)
	}
}

// An eventReader reads server-sent events.
type eventReader struct {
	t       *testing.T
	status  int
	header  http.Header
	lines   *bufio.Reader
	close   func()
	comment int
}

type event struct {
	id, name, data string
	entry          struct {
		Number     uint64
		ID, Offset string
	}
}

func (w *world) follow(query string, headers ...string) *eventReader {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.URL+room+query, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	answer, err := w.server.Client().Do(r) //nolint:bodyclose // by close
	if err != nil {
		w.t.Fatal(err)
	}
	e := &eventReader{t: w.t, status: answer.StatusCode, header: answer.Header, lines: bufio.NewReader(answer.Body), close: func() { _ = answer.Body.Close() }}
	w.t.Cleanup(e.close)
	return e
}

// block reads up to the next blank line. Comments are counted.
func (e *eventReader) block() (x event, err error) {
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return x, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			return x, nil
		case name == "":
			e.comment++
		case name == "id":
			x.id = value
		case name == "event":
			x.name = value
		case name == "data":
			x.data += value
		}
	}
}

// next returns the next event with data.
func (e *eventReader) next() event {
	e.t.Helper()
	for {
		x, err := e.block()
		if err != nil {
			e.t.Fatal(err)
		}
		if x.data != "" {
			if err := json.Unmarshal([]byte(x.data), &x.entry); err != nil {
				e.t.Fatal(err)
			}
			return x
		}
	}
}

func TestEventsFollowALogAndResumeAfterTheLastOne(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b")
	first := w.follow("?after=" + w.before(2))
	if x := first.next(); x.entry.ID != "b" || first.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%+v %v", x, first.header)
	}
	w.say("c")
	x := first.next()
	if x.entry.ID != "c" {
		t.Errorf("%+v", x)
	}
	first.close()
	w.say("d")
	// as a browser connects again: to the same address, with the last id
	second := w.follow("?after="+w.before(2), "Last-Event-ID: "+x.id)
	if x := second.next(); x.entry.ID != "d" {
		t.Errorf("%+v", x)
	}
}

func TestAReaderOfEventsKnowsItsPositionBeforeTheFirstEvent(t *testing.T) {
	w := newWorld(t)
	w.say("a")
	events := w.follow("?after=now")
	x, err := events.block()
	if err != nil || x.id != w.before(2) || x.data != "" {
		t.Errorf("%+v %v", x, err)
	}
}

func TestAnIdleStreamOfEventsHasHeartbeats(t *testing.T) {
	w := newWorld(t, func(w *world, o *api.Options) {
		o.Heartbeat = time.Millisecond
		w.hub.LookAgain = time.Millisecond
	})
	events := w.follow("")
	for events.comment < 3 {
		if _, err := events.block(); err != nil {
			t.Fatal(err)
		}
	}
	w.say("a")
	if x := events.next(); x.entry.ID != "a" {
		t.Errorf("%+v", x)
	}
}

func TestAllFormatsSayThatALogHasEnded(t *testing.T) {
	w := newWorld(t)
	w.say("a")
	events := w.follow("")
	events.next()
	w.end()
	if x := events.next(); x.entry.Number != 2 || x.name != "" {
		t.Errorf("the last entry: %+v", x)
	}
	if x := events.next(); x.name != "end" || x.data != fmt.Sprintf(`{"next":%q,"end":true}`, w.before(3)) {
		t.Errorf("the event of the end: %+v", x)
	}
	if _, err := events.block(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if again := w.follow("", "Last-Event-ID: "+w.before(3)); again.status != 204 {
		t.Errorf("a browser would connect for ever: %d", again.status)
	}
	if p := w.page("?max=1&wait=20"); p.End {
		t.Errorf("the end is on the next page: %+v", p)
	}
	if p := w.page("?wait=20&after=" + w.before(2)); !p.End || len(p.Entries) != 1 || p.Entries[0].Kind != "end" {
		t.Errorf("%+v", p)
	}
	if p := w.page("?wait=20&after=now"); !p.End || len(p.Entries) != 0 {
		t.Errorf("%+v", p)
	}
	for _, accept := range []string{"application/x-ndjson", "application/cbor-seq"} {
		if got := w.send("GET", room, "", "Accept: "+accept); got.header.Get("Once-End") != "true" {
			t.Errorf("%s: %v", accept, got.header)
		}
	}
}

func TestAStreamOfEventsEndsWithAProblemIfItCannotContinue(t *testing.T) {
	w := newWorld(t)
	w.say("a")
	events := w.follow("")
	events.next()
	w.store.away.Store(true)
	w.hub.Appended(record.GroupKey{Stream: "room", Group: "lobby"})
	if x := events.next(); x.name != "problem" || !strings.Contains(x.data, "unavailable") || strings.Contains(x.data, "internal text") {
		t.Errorf("%+v", x)
	}
	if _, err := events.block(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestAnAnswerIsCutBeforeItIsTooLargeForAFunction(t *testing.T) {
	w := newWorld(t)
	body := strings.Repeat("\x01", record.MaxBody-1)
	for i := range 5 {
		w.send("POST", toRoom, body, fmt.Sprintf("Idempotency-Key: %d", i), inLobby)
		w.settled()
	}
	seen := 0
	for after := ""; seen < 5; {
		got := w.send("GET", room+"?max=1000&after="+after, "")
		var p logPage
		if err := json.Unmarshal([]byte(got.body), &p); err != nil || len(p.Entries) == 0 {
			t.Fatalf("%d bytes: %v", len(got.body), err)
		}
		if len(got.body) > 4<<20 {
			t.Errorf("%d entries in %d bytes", len(p.Entries), len(got.body))
		}
		if p.Next != p.Entries[len(p.Entries)-1].Offset {
			t.Errorf("continues at %s", p.Next)
		}
		seen, after = seen+len(p.Entries), p.Next
	}
}

func TestTheFormatIsTheOneThatAcceptPrefers(t *testing.T) {
	w := newWorld(t)
	for accept, want := range map[string]string{
		"*/*":                 "application/json",
		"text/html,*/*;q=0.8": "application/json",
		"text/*":              "text/event-stream",
		"application/*;q=0.1, application/cbor-seq":          "application/cbor-seq",
		"application/x-ndjson;q=0.5, application/json;q=0.4": "application/x-ndjson",
		"application/json;q=0, */*":                          "application/x-ndjson",
	} {
		if got := w.send("HEAD", room, "", "Accept: "+accept); got.header.Get("Content-Type") != want {
			t.Errorf("%s: %s", accept, got.header.Get("Content-Type"))
		}
	}
}

func TestAReaderThatDoesNotReadStopsNobodyAndIsCutOff(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) { o.SlowestEvents = time.Second })
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", room); err != nil {
		t.Fatal(err)
	}
	w.followed(1)
	body := strings.Repeat("x", record.MaxBody)
	for i := range 60 { // more than the buffers of both ends hold
		if got := w.send("POST", toRoom, body, fmt.Sprintf("Idempotency-Key: %d", i), inLobby); got.status != 202 {
			t.Fatal(got)
		}
		w.settled()
	}
	if got := w.page("?after=" + w.before(60)); got.String() != "60:59" {
		t.Errorf("another reader: %+v", got)
	}
	w.followed(0)
}
