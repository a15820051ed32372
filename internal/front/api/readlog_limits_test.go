package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

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

func TestAnAnswerIsCutBeforeItIsTooLargeForAFunction(t *testing.T) {
	w := newWorld(t)
	body := strings.Repeat("\x01", record.SmallBody-1)
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, inMemory)
		events := w.follow("")
		if _, err := events.block(); err != nil { // its position, and then it reads no more
			t.Fatal(err)
		}
		for id := range 60 {
			w.say(fmt.Sprint(id))
		}
		if got := w.page("?after=" + w.before(60)); got.String() != "60:59" {
			t.Errorf("another reader: %+v", got)
		}
		if n := w.hub.Followers(); n != 1 {
			t.Errorf("%d readers, want the one that does not read", n)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := w.hub.Followers(); n != 0 {
			t.Errorf("%d readers when the time for a write is over", n)
		}
	})
}
