package lambdahandler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go/middleware"

	"github.com/effectively-once/once/internal/aws/keepalive"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/handler/handlertest"
	lambdahandler "github.com/effectively-once/once/internal/handler/lambda"
)

// client returns the SDK's client of an endpoint with the API of Lambda.
func client(url string) *lambda.Client {
	return lambda.NewFromConfig(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), APIOptions: []func(*middleware.Stack) error{keepalive.AddTo},
	})
}

// endpoint serves the API of Lambda with a handler.
func endpoint(t *testing.T, serve http.HandlerFunc) *lambda.Client {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	return client(server.URL)
}

// caller returns a caller of a function.
func caller(t *testing.T, c *lambda.Client, function string) *lambdahandler.Caller {
	t.Helper()
	out, err := lambdahandler.New(c, function)
	if err != nil {
		t.Fatalf("function %s must be accepted: %v", function, err)
	}
	return out
}

// failing answers as Lambda does if the code of a function failed.
func failing(w http.ResponseWriter, payload string) {
	w.Header().Set("X-Amz-Function-Error", "Unhandled")
	_, _ = io.WriteString(w, payload)
}

// refuse answers as Lambda does if it does not invoke the function.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"Type":"User","Message":%q}`, message)
}

func TestCaller(t *testing.T) {
	handlertest.Run(t, caller(t, endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, failed := handlertest.Answer(body)
		if failed != "" {
			failing(w, fmt.Sprintf(`{"errorType":"Error","errorMessage":%q}`, failed))
			return
		}
		_, _ = io.WriteString(w, answer)
	}), handlertest.Stream))
}

func TestTheEventIsTheRequestAndTheAnswerIsWhatTheFunctionReturns(t *testing.T) {
	c := caller(t, endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("X-Amz-Invocation-Type"), body)
	}), "orders")
	got, err := c.Call(t.Context(), "attempt-1", []byte(`{"stream":"orders"}`))
	const want = `POST /2015-03-31/functions/orders/invocations RequestResponse {"stream":"orders"}`
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAFunctionIsNamedByNameAliasOrARN(t *testing.T) {
	const account = ":123456789012:function:orders"
	for function, want := range map[string]string{
		"orders":                             "orders eu-central-1",
		"orders:live":                        "orders%3Alive eu-central-1",
		"orders:7":                           "orders%3A7 eu-central-1",
		"orders:$LATEST":                     "orders%3A%24LATEST eu-central-1",
		"arn:aws:lambda:us-east-2" + account: "arn%3Aaws%3Alambda%3Aus-east-2%3A123456789012%3Afunction%3Aorders us-east-2",
		"arn:aws-cn:lambda:cn-north-1" + account + ":live": "arn%3Aaws-cn%3Alambda%3Acn-north-1%3A123456789012%3Afunction%3Aorders%3Alive cn-north-1",
	} {
		c := caller(t, endpoint(t, func(w http.ResponseWriter, r *http.Request) {
			scope := strings.Split(r.Header.Get("Authorization"), "/") // KEY/DATE/REGION/SERVICE/…
			name := strings.Split(r.URL.EscapedPath(), "/")[3]
			_, _ = io.WriteString(w, name+" "+scope[2])
		}), function)
		if got, err := c.Call(t.Context(), "a", nil); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want the path and the region %q", function, got, err, want)
		}
	}
}

func TestATextThatIsNoFunctionIsRefused(t *testing.T) {
	for _, function := range []string{
		"", "or ders", "orders:", "orders:a:b", "orders/7", strings.Repeat("a", 65), "https://example.com",
		"arn:aws:lambda:eu-central-1:123456789012:layer:orders", "arn:aws:sqs:eu-central-1:123456789012:orders", "arn:aws:lambda::123456789012:function:orders",
		"arn:aws:lambda:eu-central-1::function:orders", "arn:aws:lambda:eu-central-1:123456789012:function:", "arn:aws:lambda:eu-central-1:123456789012:function:a:b:c",
	} {
		if _, err := lambdahandler.New(nil, function); err == nil || !strings.Contains(err.Error(), "ARN of a function") {
			t.Errorf("%q: got %v, want an error that says what a function looks like", function, err)
		}
	}
}

func TestWhateverIsNoAnswerIsAnErrorThatSaysWhy(t *testing.T) {
	const request = `{"secret":"4711"}`
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"raised": {func(w http.ResponseWriter, _ *http.Request) {
			failing(w, `{"errorType":"ValueError","errorMessage":"no such item"}`)
		}, "the handler failed: ValueError: no such item"},
		"timed out": {func(w http.ResponseWriter, _ *http.Request) {
			failing(w, `{"errorMessage":"Task timed out after 3.00 seconds"}`)
		}, "the handler failed: Task timed out after 3.00 seconds"},
		"without a message": {func(w http.ResponseWriter, _ *http.Request) { failing(w, `null`) }, "the handler failed: it gave no reason"},
		"throttled": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusTooManyRequests, "TooManyRequestsException", "Rate Exceeded.")
		}, "TooManyRequestsException: Rate Exceeded. (HTTP 429)"},
		"missing": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusNotFound, "ResourceNotFoundException", "Function not found")
		}, "ResourceNotFoundException: Function not found (HTTP 404)"},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, "AccessDeniedException", "not authorized")
		}, "AccessDeniedException: not authorized (HTTP 403)"},
		"another status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, "HTTP 202 instead of 200"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"messages":`)
		}, "unexpected EOF"},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, lambdahandler.MaxPayload+1)) }, "the answer has 6291457 bytes, and Lambda returns at most 6291456"},
	} {
		calls := atomic.Int64{}
		got, err := caller(t, endpoint(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); c.serve(w, r) }), "orders").Call(t.Context(), "a", []byte(request))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "call function orders: ") || got != nil {
			t.Errorf("%s: got %q, %v, want the error %q", name, got, err, c.want)
		}
		if own := errors.As(err, new(*handler.FailedError)); own != strings.HasPrefix(c.want, "the handler failed") {
			t.Errorf("%s: the error is in the handler's words: %v, want %v", name, own, !own)
		}
		if err != nil && strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: the error must not contain the request: %v", name, err)
		}
		// A connection may fail while a large answer is read.
		if small := name != "half an answer" && name != "too large"; small && calls.Load() != 1 {
			t.Errorf("%s: invoked %d times, want once: the retry policy of the stream decides when it is tried again", name, calls.Load())
		}
	}
}

func TestALongErrorOfAFunctionIsCut(t *testing.T) {
	_, err := caller(t, endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		failing(w, `{"errorType":"E","errorMessage":"`+strings.Repeat("é", 100_000)+`"}`)
	}), "orders").Call(t.Context(), "a", nil)
	if err == nil || len(err.Error()) > 1200 || strings.Contains(err.Error(), "\ufffd") {
		t.Errorf("got %d bytes, want an error of about 1000 bytes of UTF-8", len(fmt.Sprint(err)))
	}
}

func TestATooLargeRequestIsNotSent(t *testing.T) {
	c := caller(t, endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("the function must not be invoked") }), "orders")
	if _, err := c.Call(t.Context(), "a", bytes.Repeat([]byte(" "), lambdahandler.MaxPayload+1)); err == nil || !strings.Contains(err.Error(), "Lambda takes 6291456") {
		t.Errorf("got %v, want an error with the limit of Lambda", err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	released := make(chan struct{})
	c := caller(t, endpoint(t, func(http.ResponseWriter, *http.Request) {
		end(context.DeadlineExceeded)
		<-released
	}), "orders")
	t.Cleanup(func() { close(released) })
	if _, err := c.Call(ctx, "a", nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("got %v, want no answer in time", err)
	}
}

func TestAClosedConnectionIsReplacedOnce(t *testing.T) {
	calls := atomic.Int64{}
	closing := func(until int64) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1) <= until {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, "answer")
		}
	}
	if got, err := caller(t, endpoint(t, closing(1)), "orders").Call(t.Context(), "a", nil); err != nil || string(got) != "answer" {
		t.Errorf("got %q, %v, want the answer of the second connection", got, err)
	}
	calls.Store(0)
	if _, err := caller(t, endpoint(t, closing(9)), "orders").Call(t.Context(), "a", nil); err == nil || calls.Load() != 2 {
		t.Errorf("got %v after %d connections, want an error after 2", err, calls.Load())
	}
}
