package once_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once"
)

// bodyKey takes the first line of the body as the key.
func bodyKey(_ *http.Request, body []byte) (string, error) {
	line, _, _ := strings.Cut(string(body), "\n")
	if line == "?" {
		return "", errors.New("the first line is no order")
	}
	return line, nil
}

func TestTheKeyOfARequestMayComeFromItsBody(t *testing.T) {
	runs, seen := 0, ""
	h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{Key: bodyKey})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		body, _ := io.ReadAll(r.Body)
		seen = string(body)
		w.WriteHeader(http.StatusCreated)
	}))
	first, again := serve(h, post("header-1", "order-1\nlamp")), serve(h, post("header-2", "order-1\nlamp"))
	if first.Code != http.StatusCreated || again.Header().Get("Idempotent-Replayed") != "true" || runs != 1 || seen != "order-1\nlamp" {
		t.Errorf("%d, then %v, %d runs with body %q; want one run with the whole body, and a replay", first.Code, again.Header(), runs, seen)
	}
	wantProblem(t, serve(h, post("header-1", "order-1\nchair")), http.StatusUnprocessableEntity, "key-reuse")
	wantProblem(t, serve(h, post("header-1", "")), http.StatusBadRequest, "missing-key")
	answer := serve(h, post("header-1", "?"))
	if !strings.Contains(answer.Body.String(), "the first line is no order") {
		t.Errorf("%s; want the text of the error", answer.Body)
	}
	wantProblem(t, answer, http.StatusBadRequest, "malformed-key")
}

func TestARequestWithoutAKeyOfItsBodyMayPassUnprotected(t *testing.T) {
	runs := 0
	h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{Key: bodyKey, Missing: once.AllowMissingKey})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		runs++
		if body, err := io.ReadAll(r.Body); string(body) != "\nlamp" || err != nil {
			t.Errorf("body %q, %v; want the whole body", body, err)
		}
	}))
	serve(h, post("", "\nlamp"))
	serve(h, post("", "\nlamp"))
	if runs != 2 {
		t.Errorf("the handler ran %d times, want twice", runs)
	}
}
