package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestWhatALogCannotAnswerIsAProblem(t *testing.T) {
	w := newWorld(t)
	w.say("a", "b")
	ahead := w.before(4)
	other := "0" + w.before(2)[1:]
	for _, c := range []struct{ path, accept, want, detail string }{
		{"/v1/streams/nowhere/groups/g/log", "", "404 unknown-stream", "nowhere"},
		{"/v1/streams/orders/groups/g/log", "", "404 no-log", "log: {retain: 7d}"},
		{"/v1/streams/room/groups/g", "", "404 unknown-route", ""},
		{"/v1/streams/room/groups/%00/log", "", "400 malformed-request", "group must be UTF-8 text without control characters"},
		{"/v1/streams/room/groups/" + strings.Repeat("x", 257) + "/log", "", "400 malformed-request", "group must be at most 256 bytes"},
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
