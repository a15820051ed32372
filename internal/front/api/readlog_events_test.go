package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

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
