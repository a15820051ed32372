package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
)

// dealt fills the pool with entries, opens the session ann and reads them, and returns the fence.
func (w *sessionWorld) dealt(n int) uint64 {
	w.t.Helper()
	w.fill("work", n)
	f := w.open(ann, "free")
	if a := w.entries(ann, f, ""); len(a.Entries) != n {
		w.t.Fatalf("got %d %s", a.status, a.body)
	}
	return f
}

// post makes a call of a session, whose body is a format with the fence.
func (w *sessionWorld) post(path string, fence uint64, members string) answeredCall {
	w.t.Helper()
	return w.call("POST", path, fmt.Sprintf(`{"fence":%d%s}`, fence, members))
}

func TestACommitMovesTheCursorOnceHoweverOftenItIsSent(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(2)
	for range 2 {
		if a := w.post(ann+"/commit", f, `,"from":0,"to":2,"state":[1],"effects":[{"to":"out","body":{"a":1}},{"to":"out","body_base64":"AAE="}]`); a.status != 200 || *a.Cursor != 2 {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	for members, want := range map[string]string{
		`,"from":0`:                              "malformed-request",
		`,"from":0,"to":1,"detail":"x"`:          "malformed-request",
		`,"from":2,"to":2,"state":1`:             "invalid-message",
		`,"from":2,"to":3,"effects":[{}]`:        "malformed-request",
		`,"from":2,"to":3,"extra":1`:             "malformed-request",
		`,"from":2,"to":12003,"skip":true`:       "invalid-message",
		`,"from":2,"to":3,"skip":true,"state":1`: "invalid-message",
		`,"from":"2","to":3`:                     "malformed-request",
	} {
		w.is(w.post(ann+"/commit", f, members), http.StatusBadRequest, want)
	}
}

func TestABodyOfASessionThatCannotBeReadIsAnsweredWithTheMembersOfItsCall(t *testing.T) {
	w := newSessionWorld(t)
	f := fmt.Sprint(w.dealt(1))
	const of = "The members of this call are "
	for _, c := range []struct{ path, body, detail string }{
		{"/commit", `{"fence":` + f + `,"form":0,"to":1}`, `unknown member "form". ` + of + "fence, from, to, state, effects, skip, detail."},
		{"/commit", `{"fence":` + f + `,"from":0,"to":1,"effects":[{"too":"out"}]}`, `effects[0] has the unknown member "too"; the members are to, group, after, content_type, headers, body, body_base64.`},
		{"/commit", `{"fence":` + f + `,"from":0,"to":1,"effects":[{"timer":"t","after":"1m"}]}`, "effects[0] can't set or cancel a timer: only the handler of a stream has timers"},
		{"/commit", `{"fence":` + f + `,"from":0,"to":1,"effects":[{"cancel":"t"}]}`, "effects[0] can't set or cancel a timer: only the handler of a stream has timers"},
		{"/commit", `{"fence":` + f + `,"from":0,"to":1,"effects":[{"to":"out","after":"-1m"}]}`, `effects[0].after must be a duration such as "30s"`},
		{"/commit", `{"fence":` + f + `,"from":0,"to":1,"effects":[{"to":"out","after":"366d"}]}`, "effects[0].after must be at most 365d"},
		{"/fail", `{"fence":` + f + `,"number":1}`, `unknown member "number". ` + of + "fence, at, try, detail."},
		{"/release", `{"holder":"h"}`, `unknown member "holder". ` + of + "fence."},
		{"/retire", `{"fence":` + f + `,"` + strings.Repeat("x", 1000) + `":1}`, `unknown member "xxx`},
		{"", "", "The body is empty. It must be one JSON object; the members of this call are holder, take, lease."},
		{"/renew", " \n", "The body is empty. It must be one JSON object; the members of this call are fence."},
		{"", "holder=h", "The body must be one JSON object; the members of this call are holder, take, lease."},
		{"", `{"holder":"h"} {}`, "The body must be one JSON object; the members of this call are holder, take, lease."},
	} {
		a := w.call("POST", ann+c.path, c.body)
		if w.is(a, http.StatusBadRequest, "malformed-request"); !strings.HasPrefix(a.Detail, c.detail) || len(a.Detail) > 250 {
			t.Errorf("%s %.100s: got %s", c.path, c.body, a.Detail)
		}
	}
}

func TestACallOfASessionWithoutAFenceIsNotAnsweredAsFenced(t *testing.T) {
	w := newSessionWorld(t)
	w.dealt(1)
	answers := map[string]answeredCall{"entries without": w.call("GET", ann+"/entries", ""), "entries": w.entries(ann, 0, "")}
	for path, members := range map[string]string{"/commit": `"from":0,"to":1`, "/fail": `"at":1`, "/release": ``, "/renew": ``, "/retire": `"cursor":0`} {
		answers[path+" without"] = w.call("POST", ann+path, "{"+members+"}")
		answers[path] = w.call("POST", ann+path, strings.Replace(`{"fence":0,`+members+"}", ",}", "}", 1))
	}
	for name, a := range answers {
		if w.is(a, http.StatusBadRequest, "malformed-request"); a.Detail != "fence must be given: the one that open returned." {
			t.Errorf("%s: got %s", name, a.Detail)
		}
	}
}

func TestAFenceThatWasNeverIssuedIsNotAnsweredAsAnotherOpen(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(1)
	for name, a := range map[string]answeredCall{
		"commit": w.post(ann+"/commit", f+1, `,"from":0,"to":1`), "fail": w.post(ann+"/fail", f+1, `,"at":1`), "entries": w.entries(ann, f+1, ""),
		"release": w.post(ann+"/release", f+1, ``), "renew": w.post(ann+"/renew", f+1, ``), "retire": w.post(ann+"/retire", f+1, `,"cursor":0`),
	} {
		if w.is(a, http.StatusConflict, "fenced"); a.Fence != f || a.Holder != "host-1" || strings.Contains(a.Detail, "opened again since") || !strings.Contains(a.Detail, "never opened under this fence") {
			t.Errorf("%s: got %s", name, a.body)
		}
	}
}

func TestAPathBelowSessionsThatIsNoRouteIsAnsweredWithTheirCalls(t *testing.T) {
	w := newSessionWorld(t)
	for _, path := range []string{"work/sessions/a/b", "work/sessions/a/b/commit", "work/sessions/", "work/sessions/a/", "room/groups/g/sessions/a/b", "room/groups/a/b/sessions/ann/commit"} {
		a := w.call("POST", "/v1/streams/"+path, "{}")
		w.is(a, http.StatusNotFound, "unknown-route")
		for _, name := range []string{"entries", "commit", "fail", "release", "renew", "retire", "%2F"} {
			if !strings.Contains(a.Detail, name) {
				t.Errorf("%s: no %s in %q", path, name, a.Detail)
			}
		}
	}
	w.is(w.call("GET", ann+"/commit", ""), http.StatusMethodNotAllowed, "method-not-allowed")
}

func TestEntriesAreSkippedInAnOpenSession(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(3)
	for range 2 {
		if a := w.post(ann+"/commit", f, `,"from":0,"to":2,"skip":true,"detail":"its store is lost"`); a.status != 200 || *a.Cursor != 2 {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	var letters []string
	for _, r := range w.letters {
		letters = append(letters, string(r.Reason)+" "+r.Detail)
	}
	if !slices.Equal(letters, []string{"skipped its store is lost", "skipped its store is lost"}) {
		t.Errorf("got %q", letters)
	}
	if a := w.entries(ann, f, ""); len(a.Entries) != 1 || a.Entries[0]["id"] != "m3" {
		t.Errorf("got %s", a.body)
	}
	if a := w.call("GET", ann, ""); string(a.Dead) != `[{"from":1,"to":2}]` {
		t.Errorf("got %s", a.body)
	}
}

func TestAFailedTryIsReported(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(1)
	for _, c := range []struct{ members, want string }{
		{`,"at":1,"try":1,"detail":"no such item"`, `{"tries":1,"dead":false,"stop":false}`},
		{`,"at":1,"try":1,"detail":"no such item"`, `{"tries":1,"dead":false,"stop":false}`},
		{`,"at":1,"try":2`, `{"tries":2,"dead":true,"stop":false}`},
	} {
		if a := w.post(ann+"/fail", f, c.members); a.status != 200 || strings.TrimSpace(a.body) != c.want {
			t.Errorf("got %d %s, want %s", a.status, a.body, c.want)
		}
	}
	w.is(w.post(ann+"/fail", f, ``), http.StatusBadRequest, "malformed-request")
}

// Without a default, an operator who forgets the number of the consumer's store does not have
// entries processed twice.
func TestARetirementNeedsACursor(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(2)
	for _, members := range []string{``, `,"cursor":1,"skip_to":1`} {
		a := w.post(ann+"/retire", f, members)
		if w.is(a, http.StatusBadRequest, "malformed-request"); !strings.Contains(a.Detail, "skip_to") || !strings.Contains(a.Detail, "store") {
			t.Errorf("got %s", a.Detail)
		}
	}
	for range 2 {
		w.is(w.post(ann+"/retire", f, `,"cursor":1`), 200, "")
	}
	const bob = "/v1/streams/work/sessions/bob"
	if a := w.entries(bob, w.open(bob, "free"), ""); len(a.Entries) != 1 || a.Entries[0]["id"] != "m2" {
		t.Errorf("got %s", a.body)
	}
	if a := w.call("GET", ann, ""); !a.Retired || !a.Returned || a.Holder != "" || a.LastHolder != "host-1" {
		t.Errorf("got %s", a.body)
	}
}

func TestARetirementWhoseStoreIsLostSkips(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(3)
	w.is(w.post(ann+"/retire", f, `,"skip_to":2`), 200, "")
	if len(w.letters) != 2 || w.letters[0].Reason != "skipped" {
		t.Errorf("got %+v", w.letters)
	}
	const bob = "/v1/streams/work/sessions/bob"
	if a := w.entries(bob, w.open(bob, "free"), ""); len(a.Entries) != 1 || a.Entries[0]["id"] != "m3" {
		t.Errorf("got %s", a.body)
	}
}

func TestARetirementSkipsNoEntriesThatWereReportedAsProcessed(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(3)
	w.is(w.post(ann+"/commit", f, `,"from":0,"to":2`), 200, "")
	w.is(w.post(ann+"/retire", f, `,"skip_to":1`), http.StatusConflict, "moved")
	if len(w.letters) > 0 {
		t.Errorf("got %+v", w.letters)
	}
}

func TestAnOpenIsChecked(t *testing.T) {
	w := newSessionWorld(t)
	for _, body := range []string{
		``, `[]`, `{}`, `{"holder":""}`, `{"holder":"a\nb"}`, `{"holder":"` + strings.Repeat("x", 129) + `"}`, `{"holder":"a","take":"always"}`,
		`{"holder":"a","lease":"1ms"}`, `{"holder":"a","lease":"25h"}`, `{"holder":"a","lease":30}`, `{"holder":"a","cursor":1}`, `{"holder":"a"} {}`,
	} {
		w.is(w.call("POST", ann, body), http.StatusBadRequest, "malformed-request")
	}
	for _, name := range []string{strings.Repeat("x", 129), "a%0Ab", "%FF"} {
		w.is(w.call("POST", "/v1/streams/work/sessions/"+name, `{"holder":"a"}`), http.StatusBadRequest, "malformed-request")
	}
	a := w.call("POST", "/v1/streams/room/groups/"+strings.Repeat("x", 257)+"/sessions/ann", `{"holder":"a"}`)
	if w.is(a, http.StatusBadRequest, "malformed-request"); a.Detail != "group must be at most 256 bytes." {
		t.Errorf("got %s", a.body)
	}
	if a := w.call("POST", ann, `{"holder":"`+strings.Repeat("x", 128)+`","lease":"1m"}`); a.status != 200 || a.LeaseUntil != "2026-01-02T03:05:05Z" {
		t.Errorf("got %s", a.body)
	}
	for _, query := range []string{"", "?fence=x", "?fence=1&after=-1", "?fence=1&fence=2", "?fence=1&from=2", "?fence=0"} {
		w.is(w.call("GET", ann+"/entries"+query, ""), http.StatusBadRequest, "malformed-request")
	}
}

func TestEachRefusalOfASessionIsAProblemWithItsData(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(3)

	a := w.call("POST", ann, `{"holder":"host-2"}`)
	if w.is(a, http.StatusConflict, "held"); a.Holder != "host-1" || a.RetryAfter != 30 || a.header.Get("Retry-After") != "30" {
		t.Errorf("got %s", a.body)
	}
	now := w.open(ann, "mine")
	for path, members := range map[string]string{"/commit": `,"from":0,"to":1`, "/fail": `,"at":1`, "/release": ``, "/renew": ``, "/retire": `,"cursor":0`} {
		a := w.post(ann+path, f, members)
		if w.is(a, http.StatusConflict, "fenced"); a.Fence != now || a.Holder != "host-1" {
			t.Errorf("%s: got %s", path, a.body)
		}
	}
	w.is(w.entries(ann, f, ""), http.StatusConflict, "fenced")
	a = w.post("/v1/streams/work/sessions/nobody/renew", 1, ``)
	if w.is(a, http.StatusConflict, "fenced"); a.Fence != 0 || !strings.Contains(a.Detail, "Open it first") {
		t.Errorf("got %s", a.body)
	}
	a = w.post(ann+"/commit", now, `,"from":1,"to":2`)
	if w.is(a, http.StatusConflict, "moved"); a.Cursor == nil || *a.Cursor != 0 {
		t.Errorf("got %s", a.body)
	}
	for _, a := range []answeredCall{w.post(ann+"/commit", now, `,"from":0,"to":9`), w.entries(ann, now, "&after=9"), w.post(ann+"/fail", now, `,"at":9`), w.post(ann+"/retire", now, `,"cursor":9`)} {
		if w.is(a, http.StatusConflict, "ahead"); a.Last == nil || *a.Last != 3 {
			t.Errorf("got %s", a.body)
		}
	}
	w.pass(2 * time.Hour) // the entries have expired
	a = w.entries(ann, now, "")
	if w.is(a, http.StatusGone, "expired"); a.First != 4 || !strings.Contains(a.Detail, "commit") {
		t.Errorf("got %s", a.body)
	}
	w.is(w.post(ann+"/commit", now, `,"from":0,"to":3,"skip":true`), 200, "") // as the detail says
	w.is(w.entries(ann, now, ""), http.StatusNoContent, "")
	w.is(w.post(ann+"/retire", now, `,"cursor":3`), 200, "")
	w.is(w.post(ann+"/renew", now, ``), http.StatusGone, "retired")
	w.is(w.entries(ann, now, ""), http.StatusGone, "retired")
	w.is(w.call("GET", "/v1/streams/work/sessions/nobody", ""), http.StatusNotFound, "unknown-session")
	for _, path := range []string{"/v1/streams/room/sessions", "/v1/streams/room/sessions/ann", "/v1/streams/plain/sessions"} {
		w.is(w.call("GET", path, ""), http.StatusNotFound, "no-pool")
	}
	w.is(w.call("GET", "/v1/streams/plain/groups/g/sessions/ann", ""), http.StatusNotFound, "no-log")
	w.is(w.call("GET", "/v1/streams/nowhere/sessions/ann", ""), http.StatusNotFound, "unknown-stream")
	w.is(w.call("GET", ann, "", "Test-Principal: intruder"), http.StatusForbidden, "forbidden")
	w.is(w.call("POST", ann+"/take", "{}"), http.StatusNotFound, "unknown-route")
}

func TestALogThatHasBegunAgainIsToldToItsSession(t *testing.T) {
	w := newSessionWorld(t)
	const path = "/v1/streams/room/groups/g/sessions/ann"
	w.fill("room", 2)
	f := w.open(path, "free")
	w.entries(path, f, "")
	w.pass(31 * 24 * time.Hour)
	w.fill("room", 3)
	for _, a := range []answeredCall{w.entries(path, f, ""), w.post(path+"/commit", f, `,"from":0,"to":1`)} {
		if w.is(a, http.StatusGone, "expired"); !strings.Contains(a.Detail, "Retire the session") {
			t.Errorf("got %s", a.body)
		}
	}
	w.is(w.post(path+"/retire", f, `,"cursor":0`), 200, "")
	if a := w.entries(path, w.open(path, "free"), ""); len(a.Entries) != 3 || a.Entries[0]["number"] != 1.0 {
		t.Errorf("got %s", a.body)
	}
}

func TestAPoolWithTooManySessionsSaysWhatToDo(t *testing.T) {
	w := newSessionWorld(t, func(c *session.Config) { c.MaxPool = 150 })
	w.dealt(1)
	var a answeredCall
	for i := 0; i < 10 && a.status != http.StatusTooManyRequests; i++ {
		w.fill("work", 20)
		path := fmt.Sprint("/v1/streams/work/sessions/", strings.Repeat("x", 30), i)
		a = w.entries(path, w.open(path, "free"), "")
	}
	if w.is(a, http.StatusTooManyRequests, "rate-limited"); !strings.Contains(a.Detail, "Retire sessions that are not used") || a.header.Get("Retry-After") == "" {
		t.Errorf("got %s", a.body)
	}
}

func TestAFaultOfTheStoreIsNoProblemOfTheSession(t *testing.T) {
	w := newSessionWorld(t)
	f := w.dealt(1)
	w.store.away.Store(true)
	w.is(w.post(ann+"/commit", f, `,"from":0,"to":1`), http.StatusServiceUnavailable, "unavailable")
	w.is(w.entries(ann, f, ""), http.StatusServiceUnavailable, "unavailable")
	w.is(w.call("POST", ann, `{"holder":"a"}`), http.StatusServiceUnavailable, "unavailable")
}
