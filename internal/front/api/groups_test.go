package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

const rooms = "/v1/streams/room/groups"

// A groupList is a list of groups, as a caller reads it.
type groupList struct {
	Groups []struct {
		Group, Last string
		End         bool
	}
	Next, Changes string
}

func (l groupList) String() string {
	var parts []string
	for _, g := range l.Groups {
		parts = append(parts, g.Group+":"+strings.TrimLeft(g.Last[strings.Index(g.Last, "_")+1:], "0"))
	}
	return strings.Join(parts, " ")
}

func (w *world) groups(query string) (l groupList) {
	w.t.Helper()
	got := w.send("GET", rooms+query, "")
	if got.status != 200 || json.Unmarshal([]byte(got.body), &l) != nil {
		w.t.Fatalf("%s: %d %s", query, got.status, got.body)
	}
	return l
}

// sayIn sends a message to a group and waits until it is in its log.
func (w *world) sayIn(group, id string) {
	w.t.Helper()
	if got := w.send("POST", toRoom, "body", "Idempotency-Key: "+id, "Once-Group: "+group); got.status != 202 {
		w.t.Fatal(got)
	}
	w.settled()
}

func TestTheGroupsOfAStreamAreListedPageByPage(t *testing.T) {
	w := newWorld(t)
	if l := w.groups(""); l.Groups == nil || len(l.Groups) != 0 || l.Next != "" {
		t.Errorf("of a stream without groups: %+v", l)
	}
	for i, group := range []string{"a", "b/c", "d", "a", "e"} {
		w.sayIn(group, fmt.Sprint(i))
	}
	if l := w.groups(""); l.String() != "a:2 b/c:1 d:1 e:1" || l.Next != "" {
		t.Errorf("all: %s, then %q", l.String(), l.Next)
	}
	first := w.groups("?max=3")
	if rest := w.groups("?max=3&after=" + first.Next); first.String() != "a:2 b/c:1 d:1" || first.Next != "d" || rest.String() != "e:1" || rest.Next != "" {
		t.Errorf("%+v, then %+v", first, rest)
	}
	w.say("x")
	w.end()
	if l := w.groups("?after=e"); l.String() != "lobby:2" || !l.Groups[0].End {
		t.Errorf("an ended log: %+v", l)
	}
}

func TestAReaderIsToldWhichGroupsHaveNewEntries(t *testing.T) {
	w := newWorld(t)
	w.sayIn("a", "1")
	list := w.groups("")
	if l := w.groups("?changes=" + list.Changes); l.String() != "" {
		t.Errorf("nothing has changed: %s", l.String())
	}
	for i, group := range []string{"a", "b", "a", "c"} {
		w.sayIn(group, fmt.Sprint("later-", i))
	}
	if l := w.groups("?changes=" + list.Changes); l.String() != "a:3 b:1 c:1" {
		t.Errorf("since the list: %s", l.String())
	}
	one := w.groups("?max=1&changes=" + list.Changes)
	if rest := w.groups("?changes=" + one.Changes); one.String() != "a:3" || rest.String() != "b:1 a:3 c:1" {
		t.Errorf("%s, then %s", one.String(), rest.String())
	}
	waiting := make(chan groupList)
	at := w.groups("").Changes
	go func() { waiting <- w.groups("?wait=20&changes=" + at) }()
	w.followed(1)
	w.sayIn("new", "new")
	if l := <-waiting; l.String() != "new:1" {
		t.Errorf("a reader who waits: %s", l.String())
	}
}

func TestAReaderWhoseMarkIsNotKnownListsAllGroupsAgain(t *testing.T) {
	w := newWorld(t)
	at := w.groups("").Changes
	for i := range 9000 {
		w.hub.Appended(record.GroupKey{Stream: "room", Group: fmt.Sprint(i % 10)})
	}
	for name, mark := range map[string]string{"old": at, "of another process": newWorld(t).groups("").Changes} {
		if got := w.send("GET", rooms+"?changes="+mark, ""); got.status != 410 || !strings.Contains(got.body, "#expired") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

func TestAListOfGroupsIsRefusedWithTheReason(t *testing.T) {
	w := newWorld(t)
	for query, status := range map[string]int{
		"?max=0": 400, "?after=a&after=b": 400, "?changes=x": 400, "?limit=1": 400, "?wait=1": 400, "?wait=x": 400, "?%zz": 400,
		"?after=a&changes=" + w.groups("").Changes: 400,
	} {
		if got := w.send("GET", rooms+query, ""); got.status != status {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	for path, status := range map[string]int{"/v1/streams/orders/groups": 404, "/v1/streams/nowhere/groups": 404} {
		if got := w.send("GET", path, ""); got.status != status {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := w.send("GET", rooms, "", "Test-Principal: intruder"); got.status != 403 {
		t.Errorf("an intruder: %d %s", got.status, got.body)
	}
	if got := w.send("POST", rooms, ""); got.status != 405 {
		t.Errorf("POST: %d", got.status)
	}
	bare := newWorld(t, func(_ *world, o *api.Options) { o.Groups = nil })
	if got := bare.send("GET", rooms, ""); got.status != 404 || !strings.Contains(got.body, "does not list groups") {
		t.Errorf("a server without a list: %d %s", got.status, got.body)
	}
}
