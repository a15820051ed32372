package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

// TestMain is also the function under test: if an instance started it, the test binary serves the
// Lambda Runtime API.
func TestMain(m *testing.M) {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") == "" {
		os.Exit(m.Run())
	}
	lambda.Start(func(ctx context.Context, in string) (any, error) {
		switch in {
		case "pid":
			return os.Getpid(), nil
		case "fail":
			return nil, errors.New("it failed")
		case "panic":
			panic("it panicked")
		case "exit":
			os.Exit(3)
		case "begun":
			fmt.Fprintln(os.Stderr, "begun")
			select {}
		case "hang":
			select {}
		case "deadline":
			deadline, _ := ctx.Deadline()
			return deadline, nil
		}
		return in, nil
	})
}

func instance(t *testing.T, o Options) *Instance {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Output = t.Output()
	i := New(self, o)
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func invoke(t *testing.T, i *Instance, what string) string {
	t.Helper()
	out, err := i.Invoke(t.Context(), []byte(`"`+what+`"`))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestOneProcessServesManyInvocations(t *testing.T) {
	i := instance(t, Options{Timeout: time.Minute})
	first := invoke(t, i, "pid")
	for range 3 {
		if again := invoke(t, i, "pid"); again != first {
			t.Errorf("process %s, then %s", first, again)
		}
	}
	before := time.Now().Truncate(time.Millisecond)
	var deadline time.Time
	if err := json.Unmarshal([]byte(invoke(t, i, "deadline")), &deadline); err != nil {
		t.Fatal(err)
	}
	if deadline.Before(before.Add(time.Minute)) || deadline.After(time.Now().Add(time.Minute)) {
		t.Errorf("the handler's context ends at %v, want a minute after %v", deadline, before)
	}
}

func TestAnInvocationFails(t *testing.T) {
	i := instance(t, Options{Timeout: time.Minute})
	pid := invoke(t, i, "pid")
	_, err := i.Invoke(t.Context(), []byte(`"fail"`))
	if failed, ok := errors.AsType[*FunctionError](err); !ok || failed.Message != "it failed" {
		t.Errorf("got %v, want what the handler returned", err)
	}
	if again := invoke(t, i, "pid"); again != pid {
		t.Error("an error ended the process")
	}
	for what, want := range map[string]error{"exit": ErrExited, "hang": ErrTimeout} {
		before := invoke(t, i, "pid")
		if what == "hang" {
			i.options.Timeout = time.Millisecond
		}
		if _, err := i.Invoke(t.Context(), []byte(`"`+what+`"`)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
		i.options.Timeout = time.Minute
		if after := invoke(t, i, "pid"); after == before {
			t.Errorf("%s: the same process goes on", what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Invoke(ctx, []byte(`"pid"`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestAMissingBootstrapIsAnError(t *testing.T) {
	if _, err := New("/does/not/exist", Options{}).Invoke(t.Context(), nil); err == nil {
		t.Error("no error")
	}
}

func TestAnAnswerSettlesTheMessagesThatItDoesNotReport(t *testing.T) {
	batch := []queue.Delivery{{ID: "a", Receipt: "ra"}, {ID: "b", Receipt: "rb"}}
	both := []string{"ra", "rb"}
	for _, c := range []struct {
		name, answer string
		want         []string
	}{
		{"no answer", ``, both},
		{"null", `null`, both},
		{"an empty object", `{}`, both},
		{"null failures", `{"batchItemFailures":null}`, both},
		{"no failures", `{"batchItemFailures":[]}`, both},
		{"one failure", `{"batchItemFailures":[{"itemIdentifier":"a"}]}`, []string{"rb"}},
		{"all failures", `{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"b"}]}`, nil},
		{"an unknown id", `{"batchItemFailures":[{"itemIdentifier":"c"}]}`, nil},
		{"an empty id", `{"batchItemFailures":[{"itemIdentifier":""}]}`, nil},
		{"another key", `{"batchItemFailures":[{"id":"a"}]}`, nil},
		{"no JSON", `done`, nil},
		{"another type", `{"batchItemFailures":"a"}`, nil},
	} {
		if d := cmp.Diff(c.want, settled(batch, []byte(c.answer))); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestTheFrontConvertsRequestsAndAnswers(t *testing.T) {
	var event string
	answers := []string{`{"statusCode":201,"headers":{"X-A":"b"},"cookies":["c=d"],"body":"/w==","isBase64Encoded":true}`, `no JSON`}
	front := Front(func(_ context.Context, in []byte) ([]byte, error) {
		event = string(in)
		answer := answers[0]
		answers = answers[1:]
		return []byte(answer), nil
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/a%2Fb?x=1&x=2", strings.NewReader("\xff"))
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)
	for _, part := range []string{`"rawPath":"/a%2Fb"`, `"rawQueryString":"x=1\u0026x=2"`, `"body":"/w=="`, `"isBase64Encoded":true`, `"version":"2.0"`} {
		if !strings.Contains(event, part) {
			t.Errorf("the event has no %s: %s", part, event)
		}
	}
	result := w.Result()
	body, err := io.ReadAll(result.Body)
	if err != nil || result.StatusCode != http.StatusCreated || string(body) != "\xff" || result.Header.Get("X-A") != "b" || result.Header.Get("Set-Cookie") != "c=d" {
		t.Errorf("answered %d %v %q, %v", result.StatusCode, result.Header, body, err)
	}
	w = httptest.NewRecorder()
	front.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusBadGateway {
		t.Errorf("a broken answer gives %d", w.Code)
	}
}
