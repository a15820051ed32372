package once_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once"
)

type problemDocument struct{ Type, Title, Detail string }

func documentOf(t *testing.T, answer *httptest.ResponseRecorder) (p problemDocument) {
	t.Helper()
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v; want a problem", answer.Body, err)
	}
	return p
}

// The clients of a service with the middleware know its requests, and nothing of messages or once.
func TestProblemsOfTheMiddlewareSpeakOfRequests(t *testing.T) {
	const base = "https://shop.example/problems#"
	slowly(t, once.MiddlewareConfig{Wait: -1, ProblemBase: base, MaxRequest: 10, MaxReply: 1}, func(w *slow) {
		answers := map[string]*httptest.ResponseRecorder{
			"missing-key":   serve(w.h, post("", "")),
			"malformed-key": serve(w.h, post(`"`, "")),
			"too-large":     serve(w.h, post("large", "more than ten bytes")),
		}
		first := w.start(w.t.Context())
		answers["leased"] = w.post()
		answers["key-reuse"] = serve(w.h, post("k", "other"))
		<-first
		for kind, answer := range answers {
			p := documentOf(w.t, answer)
			if p.Type != base+kind || p.Detail == "" || strings.Contains(strings.ToLower(p.Title+p.Detail), "message") {
				w.t.Errorf("%s: %+v; want the type %s%s, a detail, and no word about messages", kind, p, base, kind)
			}
		}
	})
}

func TestAnAnswerThatIsTooLargeHasTheTypeOfTheService(t *testing.T) {
	h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{ProblemBase: "https://shop.example/", MaxReply: 2})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("more than two bytes"))
	}))
	for range 2 {
		if p := documentOf(t, serve(h, post("k", ""))); p.Type != "https://shop.example/internal" {
			t.Errorf("type %q, want that of the service", p.Type)
		}
	}
}

// A client that obeys Retry-After gets the answer soon after the request that is running has ended,
// long before its lease would have.
func TestAClientThatObeysRetryAfterGetsTheFirstAnswerSoon(t *testing.T) {
	slowly(t, once.MiddlewareConfig{Wait: -1, Lease: time.Hour}, func(w *slow) {
		began := time.Now()
		first := w.start(w.t.Context())
		answer := w.post()
		for answer.Code == http.StatusConflict {
			seconds, err := time.ParseDuration(answer.Header().Get("Retry-After") + "s")
			if err != nil {
				w.t.Fatalf("Retry-After %q: %v; want seconds", answer.Header().Get("Retry-After"), err)
			}
			time.Sleep(seconds)
			answer = w.post()
		}
		<-first
		if took := time.Since(began); answer.Header().Get("Idempotent-Replayed") != "true" || took > 12*time.Second || w.runs.Load() != 1 {
			w.t.Errorf("%d after %v and %d runs; want a replay about 10 s after the first request began, and one run", answer.Code, took, w.runs.Load())
		}
	})
}
