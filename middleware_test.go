package once_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once"
)

func post(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders?shop=1", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantProblem checks status and type of a problem.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, kind string) {
	t.Helper()
	body := w.Body.String()
	if strings.Contains(body, errAway.Error()) {
		t.Error("the answer shows an internal error")
	}
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "#"+kind+`"`) {
		t.Errorf("got %d %s, want the problem %s with %d", w.Code, body, kind, status)
	}
}

// counting answers 201 with how often it ran.
func counting(runs *int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*runs++
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strconv.Itoa(*runs))
	})
}

func TestReplayIsByteForByteOverTheWire(t *testing.T) {
	h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.Header().Add("Warning", "199 - one")
		w.Header().Add("Warning", "199 - two")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Hop", "here only")
		w.Header().Set("Connection", "X-Hop, close")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("Late", "ignored")
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte("\x00\xffgot "), body...))
		_, _ = io.WriteString(w, strings.Repeat(".", 10000))
	}))
	server := httptest.NewServer(h)
	defer server.Close()
	type wire struct {
		status int
		header http.Header
		body   string
		close  bool
	}
	var answers []wire
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("a book"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, wire{answer.StatusCode, answer.Header, string(body), answer.Close})
	}
	first, again := answers[0], answers[1]
	if !strings.HasPrefix(first.body, "\x00\xffgot a book...") || again.body != first.body || again.status != http.StatusAccepted {
		t.Errorf("bodies of %d and %d bytes", len(first.body), len(again.body))
	}
	if first.header.Get("Set-Cookie") == "" || !first.close || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the first answer has %v", first.header)
	}
	want := http.Header{
		"Location":            {"/orders/1"},
		"Warning":             {"199 - one", "199 - two"},
		"Content-Type":        {"application/octet-stream"},
		"Content-Length":      {strconv.Itoa(len(first.body))},
		"Idempotent-Replayed": {"true"},
	}
	again.header.Del("Date")
	if diff := cmp.Diff(want, again.header); diff != "" {
		t.Errorf("headers of the replay (-want +got):\n%s", diff)
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name, key, problem string
		config             once.MiddlewareConfig
		method             string
		passes             bool
	}{
		{name: "missing on POST", problem: "missing-key"},
		{name: "missing on PATCH", method: http.MethodPatch, problem: "missing-key"},
		{name: "missing and allowed", config: once.MiddlewareConfig{Missing: once.AllowMissingKey}, passes: true},
		{name: "malformed", key: `"a`, problem: "malformed-key"},
		{name: "malformed where none is needed", key: `"a`, config: once.MiddlewareConfig{Missing: once.AllowMissingKey}, problem: "malformed-key"},
		{name: "GET passes", method: http.MethodGet, key: "k", passes: true},
		{name: "PUT passes", method: http.MethodPut, passes: true},
		{name: "PUT by choice", method: http.MethodPut, config: once.MiddlewareConfig{Methods: []string{http.MethodPut}}, problem: "missing-key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			h := once.Middleware(once.NewMemory(), c.config)(counting(&runs))
			for n := 1; n <= 2; n++ {
				r := post(c.key, "")
				if c.method != "" {
					r.Method = c.method
				}
				answer := serve(h, r)
				if !c.passes {
					wantProblem(t, answer, http.StatusBadRequest, c.problem)
				} else if runs != n {
					t.Errorf("ran %d times", runs)
				}
			}
		})
	}
}

func TestKeyReuse(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"another method": func(r *http.Request) { r.Method = http.MethodPatch },
		"another path":   func(r *http.Request) { r.URL.Path = "/returns" },
		"another query":  func(r *http.Request) { r.URL.RawQuery = "shop=2" },
		"another body":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("a bike")) },
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(counting(&runs))
			serve(h, post("k", "a book"))
			r := post("k", "a book")
			change(r)
			wantProblem(t, serve(h, r), http.StatusUnprocessableEntity, "key-reuse")
			if answer := serve(h, post(`"k"`, "a book")); answer.Code != http.StatusCreated || answer.Body.String() != "1" {
				t.Errorf("got %d, want the first answer", answer.Code)
			}
		})
	}
}

func TestWhichAnswersAreKept(t *testing.T) {
	for status, kept := range map[int]bool{200: true, 204: true, 302: true, 400: true, 404: true, 409: true, 408: false, 425: false, 429: false, 500: false, 503: false} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			runs := 0
			h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(status)
			}))
			for range 2 {
				answer := serve(h, post("k", ""))
				if answer.Code != status || answer.Header().Get("Retry-After") != "3" {
					t.Errorf("got %d %v", answer.Code, answer.Header())
				}
			}
			if want := map[bool]int{true: 1, false: 2}[kept]; runs != want {
				t.Errorf("ran %d times, want %d", runs, want)
			}
		})
	}
}

func TestPrincipalsAndNamesDoNotShareKeys(t *testing.T) {
	tokens := once.NewMemory()
	runs := 0
	byUser := once.MiddlewareConfig{Principal: func(r *http.Request) string { return r.Header.Get("User") }}
	for _, c := range []struct {
		config once.MiddlewareConfig
		user   string
	}{{byUser, "alice"}, {byUser, "bob"}, {once.MiddlewareConfig{Name: "shop"}, ""}, {once.MiddlewareConfig{Name: "bank"}, ""}} {
		r := post("k", "")
		r.Header.Set("User", c.user)
		if answer := serve(once.Middleware(tokens, c.config)(counting(&runs)), r); answer.Header().Get("Idempotent-Replayed") != "" {
			t.Errorf("%+v was answered with another's reply", c.user)
		}
	}
	if runs != 4 {
		t.Errorf("ran %d times", runs)
	}
}

func TestARequestThatIsTooLargeIsRefused(t *testing.T) {
	runs := 0
	h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{MaxRequest: 4})(counting(&runs))
	wantProblem(t, serve(h, post("k", "12345")), http.StatusRequestEntityTooLarge, "too-large")
	if answer := serve(h, post("k", "1234")); answer.Code != http.StatusCreated {
		t.Errorf("got %d", answer.Code)
	}
}

func TestAHandlerWhoseReplyIsTooLargeRunsOnce(t *testing.T) {
	for name, large := range map[string]func(http.ResponseWriter){
		"body": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("1234"))
			if _, err := w.Write([]byte("5678")); err == nil {
				t.Error("the handler was not told")
			}
		},
		"headers": func(w http.ResponseWriter) { w.Header().Set("Large", "12345678") },
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{MaxReply: 6})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs++
				large(w)
			}))
			wantProblem(t, serve(h, post("k", "")), http.StatusInternalServerError, "internal")
			again := serve(h, post("k", ""))
			if again.Header().Get("Idempotent-Replayed") != "true" {
				t.Error("the answer was not kept")
			}
			wantProblem(t, again, http.StatusInternalServerError, "internal")
			if runs != 1 {
				t.Errorf("ran %d times", runs)
			}
		})
	}
}

func TestAPanicPassesThroughAndReleases(t *testing.T) {
	runs := 0
	h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if runs++; runs == 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				t.Errorf("recovered %v", p)
			}
		}()
		serve(h, post("k", ""))
	}()
	if answer := serve(h, post("k", "")); answer.Code != http.StatusOK || answer.Header().Get("Idempotent-Replayed") != "" {
		t.Errorf("got %d %v", answer.Code, answer.Header())
	}
}
