package api_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/dedup/session"
)

func TestASessionIsReadAsJSON(t *testing.T) {
	w := newSessionWorld(t)
	w.fill("work", 3)
	f := w.open(ann, "free")
	a := w.entries(ann, f, "&max=2")
	if a.status != 200 || len(a.Entries) != 2 || a.Next != "2" || a.End || a.header.Get("Once-Next") != "2" || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if e := a.Entries[1]; e["number"] != 2.0 || e["id"] != "m2" || e["group"] != "g" || e["kind"] != "message" || e["offset"] == nil || fmt.Sprint(e["body"]) != "map[item:2]" {
		t.Errorf("got %v", e)
	}
	if a := w.entries(ann, f, "&after=2"); len(a.Entries) != 1 || a.Next != "3" {
		t.Errorf("got %s", a.body)
	}
	w.is(w.entries(ann, f, "&after=3"), http.StatusNoContent, "")
}

func TestASessionIsReadAsLinesOfJSON(t *testing.T) {
	w := newSessionWorld(t)
	w.fill("work", 2)
	a := w.entries(ann, w.open(ann, "free"), "", "Accept: application/x-ndjson")
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" || len(lines) != 2 || a.header.Get("Once-Next") != "2" || a.header.Get("Once-End") != "" {
		t.Fatalf("got %d %v %s", a.status, a.header, a.body)
	}
	if !strings.HasPrefix(lines[1], `{"number":2,"offset":"`) || !strings.Contains(lines[1], `"id":"m2"`) {
		t.Errorf("got %s", lines[1])
	}
}

func TestASessionIsReadAsACBORSequence(t *testing.T) {
	w := newSessionWorld(t)
	w.fill("work", 2)
	f := w.open(ann, "free")
	w.call("POST", ann+"/fail", fmt.Sprintf(`{"fence":%d,"at":2,"try":1}`, f))
	w.entries(ann, f, "")
	for try := 1; try <= 2; try++ {
		w.call("POST", ann+"/fail", fmt.Sprintf(`{"fence":%d,"at":2,"try":%d}`, f, try))
	}
	a := w.entries(ann, f, "", "Accept: application/cbor-seq")
	if a.status != 200 || a.header.Get("Content-Type") != "application/cbor-seq" {
		t.Fatalf("got %d %v", a.status, a.header)
	}
	var got []string
	for d := cbor.NewDecoder(strings.NewReader(a.body)); ; {
		var x struct {
			Number uint64
			ID     string
			Dead   bool
		}
		if err := d.Decode(&x); err != nil {
			break
		}
		got = append(got, fmt.Sprint(x.Number, x.ID, x.Dead))
	}
	if !slices.Equal(got, []string{"1m1false", "2m2true"}) {
		t.Errorf("got %v", got)
	}
}

func TestTheFormatsOfASessionAreThoseOfALog(t *testing.T) {
	w := newSessionWorld(t)
	w.is(w.entries(ann, w.open(ann, "free"), "", "Accept: text/html"), http.StatusNotAcceptable, "not-acceptable")
}

// nextEvents returns lines of a stream of events, without blank lines and comments.
func nextEvents(t *testing.T, r *bufio.Reader, n int) (lines []string) {
	t.Helper()
	for len(lines) < n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, lines)
		}
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ":") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestASessionIsFollowedAsEventsUntilItIsOpenedAgain(t *testing.T) {
	w := newSessionWorld(t)
	w.fill("work", 1)
	f := w.open(ann, "free")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint(w.server.URL, ann, "/entries?fence=", f), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	answer, err := w.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %v", answer.StatusCode, answer.Header)
	}
	body := bufio.NewReader(answer.Body)
	if got := nextEvents(t, body, 2); got[0] != "id: 1" || !strings.HasPrefix(got[1], `data: {"number":1,"offset":"`) {
		t.Errorf("got %q", got)
	}
	w.fill("work", 2) // the first is a copy
	if got := nextEvents(t, body, 2); got[0] != "id: 2" || !strings.Contains(got[1], `"id":"m2"`) {
		t.Errorf("got %q", got)
	}
	w.open(ann, "now")
	w.fill("work", 3)
	if got := nextEvents(t, body, 2); got[0] != "event: problem" || !strings.Contains(got[1], "#fenced") {
		t.Errorf("got %q", got)
	}
}

func TestAReaderOfEventsResumesAfterTheLastOneThatItHasSeen(t *testing.T) {
	w := newSessionWorld(t)
	w.fill("work", 1)
	w.is(w.call("POST", "/v1/streams/work/end", ""), http.StatusAccepted, "")
	w.settled()
	f := w.open(ann, "free")
	w.entries(ann, f, "")
	w.is(w.call("POST", ann+"/commit", fmt.Sprintf(`{"fence":%d,"from":0,"to":1}`, f)), 200, "")
	events := w.entries(ann, f, "", "Accept: text/event-stream")
	if want := "id: 2\ndata: {\"number\":2,\"kind\":\"end\"}\n\nevent: end\ndata: {\"next\":\"2\",\"end\":true}\n\n"; !strings.HasSuffix(events.body, want) {
		t.Errorf("got %q", events.body)
	}
	w.is(w.entries(ann, f, "", "Accept: text/event-stream", "Last-Event-ID: 2"), http.StatusNoContent, "")
	w.is(w.entries(ann, f, "", "Accept: text/event-stream", "Last-Event-ID: x"), http.StatusBadRequest, "malformed-request")
}

func TestTheEndIsTheLastEntryInEachFormat(t *testing.T) {
	w := newSessionWorld(t)
	w.is(w.call("POST", "/v1/streams/work/end", ""), http.StatusAccepted, "")
	w.settled()
	f := w.open(ann, "free")
	a := w.entries(ann, f, "")
	if !a.End || a.Next != "1" || a.header.Get("Once-End") != "true" || !strings.Contains(a.body, `[{"number":1,"kind":"end"}]`) {
		t.Errorf("got %s", a.body)
	}
	if a := w.entries(ann, f, "", "Accept: application/x-ndjson"); a.body != "{\"number\":1,\"kind\":\"end\"}\n" || a.header.Get("Once-End") != "true" {
		t.Errorf("got %s", a.body)
	}
	var x map[string]any
	if err := cbor.Unmarshal([]byte(w.entries(ann, f, "", "Accept: application/cbor-seq").body), &x); err != nil || fmt.Sprint(x) != "map[kind:end number:1]" {
		t.Errorf("got %v, %v", x, err)
	}
	w.is(w.call("POST", "/v1/streams/work/sessions/new", `{"holder":"host-1"}`), http.StatusGone, "ended")
}

func TestAReaderWaitsForAnEntry(t *testing.T) {
	w := newSessionWorld(t)
	f := w.open(ann, "free")
	got := make(chan answeredCall)
	go func() { got <- w.entries(ann, f, "&wait=20") }()
	w.followed(1)
	w.fill("work", 1)
	if a := <-got; a.status != 200 || len(a.Entries) != 1 {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

// A read deals entries, and HEAD must do nothing.
func TestHEADDealsNoEntries(t *testing.T) {
	w := newSessionWorld(t)
	w.fill("work", 1)
	f := w.open(ann, "free")
	if r := w.send("HEAD", fmt.Sprint(ann, "/entries?fence=", f), ""); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "GET" {
		t.Errorf("got %d %v", r.status, r.header)
	}
	if a := w.call("GET", ann, ""); *a.Last != 0 {
		t.Errorf("an entry was dealt: %s", a.body)
	}
	if r := w.send("HEAD", ann, ""); r.status != 200 {
		t.Errorf("got %d", r.status)
	}
}

func TestSessionsAreListedInPages(t *testing.T) {
	for name, change := range map[string]func(*session.Config){"all": func(*session.Config) {}, "those that the pool knows": func(c *session.Config) { c.Records = nil }} {
		t.Run(name, func(t *testing.T) {
			w := newSessionWorld(t, change, func(c *session.Config) { c.Pools["work"] = session.Pool{Partitions: 2, Window: 1} })
			w.fill("work", 5)
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				path := "/v1/streams/work/sessions/" + name
				w.entries(path, w.open(path, "free"), "")
			}
			var got []string
			query := "?max=2"
			for pages := 0; ; pages++ {
				a := w.call("GET", "/v1/streams/work/sessions"+query, "")
				if a.status != 200 || len(a.Pool) == 0 {
					t.Fatal(a.status, a.body)
				}
				for _, s := range a.Sessions {
					got = append(got, s.Name)
				}
				if a.Next == "" {
					break
				}
				query = "?max=2&after=" + a.Next
			}
			if strings.Join(got, "") != "abcde" {
				t.Errorf("got %v", got)
			}
			for _, query := range []string{"?max=0", "?max=x", "?before=a", "?max=1&max=2"} {
				w.is(w.call("GET", "/v1/streams/work/sessions"+query, ""), http.StatusBadRequest, "malformed-request")
			}
		})
	}
}

// Where all records would have to be read, there is no list of the sessions of a group's log, as
// there is none of groups: an empty one would say that there are no sessions.
func TestTheSessionsOfALogAreListedOnlyWhereRecordsAre(t *testing.T) {
	const list, one = "/v1/streams/room/groups/g/sessions", "/v1/streams/room/groups/g/sessions/ann"
	w := newSessionWorld(t)
	w.open(one, "free")
	if a := w.call("GET", list, ""); a.status != 200 || len(a.Sessions) != 1 || a.Pool != nil {
		t.Errorf("got %d %s", a.status, a.body)
	}
	w = newSessionWorld(t, func(c *session.Config) { c.Records = nil })
	w.open(one, "free")
	w.is(w.call("GET", list, ""), http.StatusNotFound, "unknown-route")
	w.is(w.call("GET", one, ""), 200, "")
}

func TestASessionIsDescribedToPeople(t *testing.T) {
	w := newSessionWorld(t)
	w.is(w.call("GET", ann, ""), http.StatusNotFound, "unknown-session")
	w.fill("work", 2)
	f := w.open(ann, "free")
	w.entries(ann, f, "")
	w.is(w.call("POST", ann+"/commit", fmt.Sprintf(`{"fence":%d,"from":0,"to":1,"state":{"sum":7}}`, f)), 200, "")
	a := w.call("GET", ann, "")
	if a.Holder != "host-1" || a.LastHolder != "host-1" || *a.Cursor != 1 || *a.Last != 2 || string(a.State) != `{"sum":7}` || a.Fence != f || a.LeaseUntil == "" {
		t.Errorf("got %s", a.body)
	}
	w.pass(time.Minute) // the lease has ended
	if a := w.call("GET", ann, ""); a.Holder != "" || a.LastHolder != "host-1" || a.LeaseUntil == "" {
		t.Errorf("got %s", a.body)
	}
	w.is(w.call("POST", ann+"/release", fmt.Sprintf(`{"fence":%d}`, f)), 200, "")
	if a := w.call("GET", ann, ""); a.Holder != "" || a.LastHolder != "host-1" || a.LeaseUntil != "" {
		t.Errorf("got %s", a.body)
	}
}

func TestALeaseIsRenewedAndReleased(t *testing.T) {
	w := newSessionWorld(t)
	f := w.open(ann, "free")
	w.pass(20 * time.Second)
	a := w.call("POST", ann+"/renew", fmt.Sprintf(`{"fence":%d}`, f))
	if w.is(a, 200, ""); a.LeaseUntil != "2026-01-02T03:04:55Z" {
		t.Errorf("got %s", a.body)
	}
	for range 2 {
		w.is(w.call("POST", ann+"/release", fmt.Sprintf(`{"fence":%d}`, f)), 200, "")
	}
	w.open(ann, "free")
}
