package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
)

// A logEntry has the fields of an entry that the checks compare.
type logEntry struct {
	Number     uint64 `json:"number"`
	Offset     string `json:"offset"`
	Kind       string `json:"kind"`
	ID         string `json:"id"`
	Time       string `json:"time"`
	Body       any    `json:"body"`
	BodyBase64 string `json:"body_base64"`
}

type logPage struct {
	Entries []logEntry
	Next    string
	End     bool
}

// logPath returns the path of the log of a group of the sandbox.
func (x *sandbox) logPath(group, query string) string {
	return "/v1/streams/logged/groups/" + url.PathEscape(x.name(group)) + "/log" + query
}

// readLog reads a page as JSON.
func (x *sandbox) readLog(t *testing.T, group, query string) (p logPage) {
	t.Helper()
	a := x.must(t, "GET", x.logPath(group, query), "")
	if a.status != http.StatusOK {
		t.Fatalf("%s: %+v", query, a)
	}
	must(t, json.Unmarshal([]byte(a.body), &p))
	if a.header.Get("Once-Next") != p.Next {
		t.Errorf("%s: continues at %s, in the header at %s", query, p.Next, a.header.Get("Once-Next"))
	}
	return p
}

// fillLog sends each message twice and returns the entries of the log when all are there.
func (x *sandbox) fillLog(t *testing.T, group string, messages int) []logEntry {
	t.Helper()
	var lines strings.Builder
	var input []sent
	for range 2 {
		for i := range messages {
			fmt.Fprintf(&lines, `{"key":%q,"group":%q,"content_type":"text/plain","body":"body %d"}`+"\n", x.name(fmt.Sprint(group, i)), x.name(group), i)
		}
	}
	for i := range messages {
		input = append(input, sent{id: x.name(fmt.Sprint(group, i)), group: x.name(group), contentType: "text/plain", body: fmt.Append(nil, "body ", i)})
	}
	x.batch(t, "logged", lines.String())
	x.want(t, "logged", input...)
	var entries []logEntry
	for after := ""; len(entries) < messages; {
		p := x.readLog(t, group, "?max=1000&wait=5&after="+after)
		entries, after = append(entries, p.Entries...), p.Next
	}
	for i, e := range entries {
		if e.Number != uint64(i)+1 || e.ID != x.name(fmt.Sprint(group, i)) || e.Kind != "message" || e.Body != fmt.Sprint("body ", i) || e.Time == "" {
			t.Errorf("entry %d is %+v", i+1, e)
		}
	}
	return entries
}

func aLogHasEachMessageOnce(t *testing.T, x *sandbox) {
	want := x.fillLog(t, "log", 12)

	lines := x.must(t, "GET", x.logPath("log", ""), "", "Accept", "application/x-ndjson")
	var got []logEntry
	for line := range strings.Lines(lines.body) {
		var e logEntry
		must(t, json.Unmarshal([]byte(line), &e))
		got = append(got, e)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}

	sequence := x.must(t, "GET", x.logPath("log", ""), "", "Accept", "application/cbor-seq")
	got = nil
	for rest := []byte(sequence.body); len(rest) > 0; {
		var e logEntry
		var err error
		rest, err = cbor.UnmarshalFirst(rest, &e)
		must(t, err)
		if body, ok := e.Body.([]byte); ok {
			e.Body = string(body)
		}
		got = append(got, e)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("sequence (-want +got):\n%s", d)
	}

	if d := cmp.Diff(want, x.logEvents(t, "log", len(want))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// logEvents reads a number of entries as events. On AWS a stream of events ends after a page.
func (x *sandbox) logEvents(t *testing.T, group string, n int) (entries []logEntry) {
	t.Helper()
	last := ""
	for len(entries) < n {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, x.url+x.logPath(group, ""), http.NoBody)
		must(t, err)
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		for lines := bufio.NewScanner(answer.Body); len(entries) < n && lines.Scan(); {
			if id, is := strings.CutPrefix(lines.Text(), "id: "); is {
				last = id
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var e logEntry
				must(t, json.Unmarshal([]byte(data), &e))
				entries = append(entries, e)
			}
		}
		must(t, answer.Body.Close())
	}
	return entries
}

func aLogIsReadFromAnyOffset(t *testing.T, x *sandbox) {
	if p := x.readLog(t, "offsets", "?after=now"); len(p.Entries) != 0 || p.End {
		t.Errorf("of a group without a record: %+v", p)
	}
	entries := x.fillLog(t, "offsets", 5)
	for i, e := range entries {
		p := x.readLog(t, "offsets", "?max=1&after="+e.Offset)
		switch {
		case i < 4 && (len(p.Entries) != 1 || p.Entries[0] != entries[i+1] || p.Next != entries[i+1].Offset):
			t.Errorf("after %d: %+v", e.Number, p)
		case i == 4 && (len(p.Entries) != 0 || p.Next != e.Offset):
			t.Errorf("at the end: %+v", p)
		}
	}
	last := entries[4].Offset
	if p := x.readLog(t, "offsets", "?after=now&wait=1"); len(p.Entries) != 0 || p.Next != last {
		t.Errorf("now: %+v", p)
	}
	head := x.must(t, "HEAD", x.logPath("offsets", "?after=now"), "")
	if head.status != http.StatusOK || head.header.Get("Once-Next") != last {
		t.Errorf("HEAD: %+v", head)
	}
	ahead := last[:len(last)-1] + "6"
	for path, want := range map[string]string{
		x.logPath("offsets", "?after="+ahead):                     "409 ahead",
		x.logPath("offsets", "?after="+"0000000000001"+last[13:]): "410 expired",
		x.logPath("offsets", "?after=17"):                         "400 malformed-request",
		"/v1/streams/keyed/groups/g/log":                          "404 no-log",
		"/v1/streams/nowhere/groups/g/log":                        "404 unknown-stream",
	} {
		a := x.must(t, "GET", path, "")
		var p struct{ Type string }
		must(t, json.Unmarshal([]byte(a.body), &p))
		if _, name, _ := strings.Cut(p.Type, "#"); fmt.Sprint(a.status, " ", name) != want {
			t.Errorf("%s: %d %s, want %s", path, a.status, a.body, want)
		}
	}
	if a := x.must(t, "GET", x.logPath("offsets", ""), "", "Accept", "image/png"); a.status != http.StatusNotAcceptable {
		t.Errorf("Accept: image/png gets %+v", a)
	}
}
