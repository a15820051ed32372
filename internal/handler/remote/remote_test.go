package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/handler/handlertest"
	"github.com/effectively-once/once/internal/handler/remote"
	"github.com/effectively-once/once/internal/record"
)

func open(t *testing.T, h http.Handler, o remote.Options) (*remote.Caller, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := remote.New(server.URL+"/secret-path", o)
	if err != nil {
		t.Fatal("the caller must be opened:", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, server
}

func TestARemoteHandlerPassesTheSuite(t *testing.T) {
	c, _ := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, failed := handlertest.Answer(body)
		if failed != "" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusInternalServerError)
			_ = json.NewEncoder(w).Encode(map[string]string{"title": "failed", "detail": failed})
			return
		}
		_, _ = io.WriteString(w, answer)
	}), remote.Options{})
	handlertest.Run(t, c)
}

func TestEveryAnswerButAWholeOneWithStatus200IsAnError(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a text", code) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not found":  {status(http.StatusNotFound), "is the path of the URL right?): the answer is 404 Not Found: a text"},
		"gone":       {status(http.StatusGone), "the answer is 410 Gone"},
		"crashed":    {status(http.StatusInternalServerError), "the answer is 500 Internal Server Error: a text"},
		"forbidden":  {status(http.StatusUnauthorized), "same secret"},
		"created":    {status(http.StatusCreated), "only 200 is an answer"},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "the answer is 204 No Content"},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, "redirects are not followed"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 10<<20)) }, "has more than 6291456 bytes"},
		"half": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"messages":[{"id"`)
		}, "unexpected EOF"},
		"died": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"a problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"title":"KeyError","detail":"no item\n7"}`)
		}, `the handler failed: no item\n7`},
	} {
		t.Run(name, func(t *testing.T) {
			caller, server := open(t, c.answer, remote.Options{})
			_, err := caller.Call(t.Context(), "x", []byte("{}"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("the error is %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "secret-path") {
				t.Errorf("the error %v has the path of %s, which may be a secret", err, server.URL)
			}
		})
	}
}

// Proxies answer with these statuses if the handler is down, some of them as a problem.
func TestAProblemOfAGatewayIsNoAnswerOfTheHandler(t *testing.T) {
	for code, own := range map[int]bool{
		http.StatusBadRequest: true, http.StatusInternalServerError: true, http.StatusNotImplemented: true,
		http.StatusBadGateway: false, http.StatusServiceUnavailable: false, http.StatusGatewayTimeout: false,
	} {
		caller, _ := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"detail":"no upstream"}`)
		}), remote.Options{})
		_, err := caller.Call(t.Context(), "x", []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), "no upstream") {
			t.Errorf("%d: the error is %v, want one with the detail", code, err)
		}
		if got := errors.As(err, new(*handler.FailedError)); got != own {
			t.Errorf("%d: the error %v counts as the handler's own: %t, want %t", code, err, got, own)
		}
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	hang := make(chan struct{})
	caller, _ := open(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }), remote.Options{})
	defer close(hang)
	h := handler.New(caller, handler.Options{Stream: "s", Timeout: 50 * time.Millisecond})
	err := h.Handle(t.Context(), one())
	if err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("the error is %v, want one about the time", err)
	}
}

func TestAnAddressWithoutAHandlerIsAnErrorWithoutTheURL(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c, err := remote.New("http://"+address+"/?token=secret", remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), "x", nil)
	if err == nil || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "token") {
		t.Errorf("the error is %v, want one with the address and without the query", err)
	}
}

func TestARequestIsSignedAsStandardWebhooks(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verified := make(chan error, 1)
	caller, _ := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusOK)
		hook, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = hook.Verify(body, r.Header)
		}
		if r.Header.Get("Webhook-Id") != "attempt-1" || r.Header.Get("Content-Type") != "application/json" || r.Method != http.MethodPost {
			t.Errorf("%s with the headers %v, want a POST of JSON with the attempt as id", r.Method, r.Header)
		}
		verified <- err
	}), remote.Options{Secret: func() (string, error) { return secret, nil }})
	if _, err := caller.Call(t.Context(), "attempt-1", []byte(`{"stream":"orders"}`)); err != nil {
		t.Fatal("the call must succeed:", err)
	}
	if err := <-verified; err != nil {
		t.Errorf("the signature does not verify: %v", err)
	}
}

func TestASecretThatCanNotBeReadSendsNothing(t *testing.T) {
	caller, _ := open(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request was sent, want none")
	}), remote.Options{Secret: func() (string, error) { return "§", nil }})
	if _, err := caller.Call(t.Context(), "x", nil); err == nil || strings.Contains(err.Error(), "§") {
		t.Errorf("the error is %v, want one without the secret", err)
	}
}

func TestConnectionsAreKeptForAsManyCallsAsThereMayBe(t *testing.T) {
	// net/http gives up a connection if a request is reported as written 50 ms late: here no time passes
	synctest.Test(t, func(t *testing.T) {
		const calls = 20
		var opened int
		all := make(chan struct{})
		arrived := make(chan struct{}, 2*calls)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			arrived <- struct{}{}
			<-all
		}))
		connections := make(chan struct{}, 4*calls)
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections <- struct{}{}
			}
		}
		server.Start()
		defer server.Close()
		c, err := remote.New(server.URL, remote.Options{Concurrency: calls})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			ended := make(chan error, calls)
			for range calls {
				go func() {
					_, err := c.Call(context.Background(), "x", nil)
					ended <- err
				}()
			}
			for range calls {
				<-arrived
			}
			for range calls {
				all <- struct{}{}
			}
			for range calls {
				if err := <-ended; err != nil {
					t.Fatal("every call must succeed:", err)
				}
			}
		}
		for len(connections) > 0 {
			<-connections
			opened++
		}
		if opened != calls {
			t.Errorf("%d connections were opened for two times %d calls, want %d", opened, calls, calls)
		}
	})
}

// A server may close an idle connection at the moment when a call takes it. The handler did not
// answer the call, so net/http repeats it on another connection, as the same attempt.
func TestACallOnAConnectionThatTheServerClosesIsRepeatedAsTheSameAttempt(t *testing.T) {
	type arrival struct{ connection, key, id string }
	var mu sync.Mutex // one call at a time, but on two connections
	var arrivals []arrival
	c, _ := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := arrival{r.RemoteAddr, r.Header.Get("Idempotency-Key"), r.Header.Get("webhook-id")}
		mu.Lock()
		defer mu.Unlock()
		arrivals = append(arrivals, a)
		if n := len(arrivals); n > 1 && arrivals[n-2].connection == a.connection {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
		_, _ = io.Copy(w, r.Body)
	}), remote.Options{})
	for _, attempt := range []string{"first", "second"} {
		if answer, err := c.Call(t.Context(), attempt, []byte(attempt)); err != nil || string(answer) != attempt {
			t.Fatalf("%s: got %q and %v, want its body and no error", attempt, answer, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(arrivals) != 3 || arrivals[0].connection != arrivals[1].connection {
		t.Fatalf("got %+v, want the second call on the connection of the first, and then on another one", arrivals)
	}
	for _, a := range arrivals[1:] {
		if a.key != `"second"` || a.id != "second" {
			t.Errorf("got %+v, want the attempt second", a)
		}
	}
}

func one() *record.Batch {
	return &record.Batch{ID: "x", Group: record.GroupKey{Stream: "s", Group: "g"}, Messages: []record.Message{{ID: "a"}}}
}

func TestAURLThatCanNotBeCalledIsAnErrorAtTheStart(t *testing.T) {
	for _, target := range []string{"", "orders", "ftp://a", "http://", "https://user:word@a.example", "https://a.example/#x"} {
		if _, err := remote.New(target, remote.Options{}); err == nil || strings.Contains(err.Error(), "word@") {
			t.Errorf("%q: %v, want an error without it", target, err)
		}
	}
}
