package problem

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAProblemIsEncodedByTheStandard(t *testing.T) {
	w := httptest.NewRecorder()
	New(KeyReuse, "send another key").Write(w, "urn:uuid:1")

	want := `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#key-reuse","title":"Key was used for another content",` +
		`"status":422,"detail":"send another key","instance":"urn:uuid:1"}` + "\n"
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Error(diff)
	}
	if w.Code != 422 || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

func TestEveryTypeHasItsOwnStatusAndTitle(t *testing.T) {
	want := map[Type]int{
		MissingKey: 400, MalformedKey: 400, MalformedRequest: 400, InvalidMessage: 400, Rejected: 400, Unauthorized: 401, Forbidden: 403, UnknownRoute: 404,
		UnknownStream: 404, UnknownMessage: 404, MethodNotAllowed: 405, Leased: 409, Deleted: 410, TooLarge: 413, UnsupportedMediaType: 415,
		Held: 409, Moved: 409, Restored: 409, Retired: 410, NoPool: 404, UnknownSession: 404,
		KeyReuse: 422, RateLimited: 429, Internal: 500, Unavailable: 503, NoLog: 404, NotAcceptable: 406, Ahead: 409, Ended: 409, Expired: 410,
		Fenced: 409, IncompleteBody: 408, UnknownEpoch: 410, Loop: 508,
	}
	got, titles := map[Type]int{}, map[string]Type{}
	for _, typ := range Types() {
		got[typ] = typ.Status()
		if other, taken := titles[typ.Title()]; taken {
			t.Errorf("%s and %s share a title", typ, other)
		}
		titles[typ.Title()] = typ
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		problem Problem
		want    string
	}{
		{Problem{Type: Leased, RetryAfter: 1001 * time.Millisecond}, "2"},
		{Problem{Type: RateLimited, RetryAfter: time.Millisecond}, "1"},
		{Problem{Type: Unavailable}, "1"},
		{Problem{Type: MissingKey}, ""},
	} {
		w := httptest.NewRecorder()
		c.problem.Write(w, "")
		if got := w.Header().Get("Retry-After"); got != c.want {
			t.Errorf("%s after %v: got %q, want %q", c.problem.Type, c.problem.RetryAfter, got, c.want)
		}
	}
}

func TestAllowListsTheMethods(t *testing.T) {
	w := httptest.NewRecorder()
	p := &Problem{Type: MethodNotAllowed, Allow: []string{"GET", "HEAD"}}
	p.Write(w, "")
	if got := w.Header().Get("Allow"); got != "GET, HEAD" {
		t.Errorf("got %q", got)
	}
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if _, has := doc["detail"]; has {
		t.Error("an empty detail is written")
	}
}
