package deployed_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
)

func TestAMessageOnTheQueueIsTheOneThatWasSent(t *testing.T) {
	w := newWorld(t)
	plain := client.Message{Stream: "orders", Key: "o-1", Group: "customer-7", ContentType: "application/json", Headers: map[string]string{"X-Shop": "1"}, Body: []byte(`{"item":7}`)}
	number := client.Message{Stream: "chat", Source: "ann", Epoch: 1, Sequence: 3, Body: []byte("hello")}
	receipt, err := w.stack.QueueSender(deployed.FIFO, client.Options{}).Send(t.Context(), plain)
	if err != nil || receipt.ID != "o-1" || receipt.Group != "customer-7" || receipt.Status != "queued" {
		t.Errorf("got %+v, %v", receipt, err)
	}
	if receipt, err = w.stack.QueueSender(deployed.Standard, client.Options{}).Send(t.Context(), number); err != nil || receipt.ID != "ann/1/3" {
		t.Errorf("got %+v, %v", receipt, err)
	}
	late := cmpopts.IgnoreFields(record.Message{}, "Accepted")
	if d := cmp.Diff([]record.Message{{
		Stream: "orders", ID: "o-1", Group: "customer-7", ContentType: "application/json", Headers: map[string]string{"X-Shop": "1"}, Body: []byte(`{"item":7}`),
	}}, w.messages(t, "IngressFifo"), late); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if d := cmp.Diff([]record.Message{{Stream: "chat", Source: "ann", Epoch: 1, Sequence: 3, Body: []byte("hello")}}, w.messages(t, "Ingress"), late); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestAQueueThatDoesNotAnswerLeavesTheMessageUnacknowledged(t *testing.T) {
	stacktest.Start(t).Outputs = complete()
	t.Setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:1")
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the sender retries
	s := reopened(t)
	retries := 0
	sender := s.QueueSender(deployed.FIFO, client.Options{MinBackoff: time.Millisecond, MaxElapsed: time.Second, OnRetry: func(error, time.Duration) { retries++ }})
	_, err := sender.Send(t.Context(), client.Message{Stream: "orders", Body: []byte("1")})
	var open *client.UnacknowledgedError
	if !errors.As(err, &open) || open.Key == "" || retries == 0 {
		t.Errorf("got %v after %d retries", err, retries)
	}
	_, err = sender.Send(t.Context(), client.Message{Stream: "orders", Key: strings.Repeat("k", 300), Body: []byte("1")})
	if !errors.Is(err, client.InvalidMessage) {
		t.Errorf("a message that breaks a rule: %v", err)
	}
}

func TestAMessageToAMissingQueueIsNotSent(t *testing.T) {
	w := newWorld(t)
	w.aws.Outputs["IngressFifoQueueUrl"] += "-gone.fifo"
	w.open(t)
	_, err := w.stack.QueueSender(deployed.FIFO, client.Options{MaxElapsed: time.Second}).Send(t.Context(), client.Message{Stream: "orders", Body: []byte("1")})
	if _, ok := errors.AsType[*deployed.DeniedError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// lookedFor returns a stack whose parts are never called.
func lookedFor(t *testing.T) *deployed.Stack {
	t.Helper()
	stacktest.Start(t).Outputs = complete()
	return reopened(t)
}

func reopened(t *testing.T) *deployed.Stack {
	t.Helper()
	s, err := deployed.Open(t.Context(), deployed.Options{Name: "Once"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEveryTryIsSignedForTheAPI signs each received request again: only the same request with the
// same key has the same signature.
func TestEveryTryIsSignedForTheAPI(t *testing.T) {
	s := lookedFor(t)
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if want := signature(t, r, string(body)); want != r.Header.Get("Authorization") {
			t.Errorf("signed %q, want %q", r.Header.Get("Authorization"), want)
		}
		if tries++; tries == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"o-1","stream":"orders","group":"o-1","status":"accepted"}`)
	}))
	defer server.Close()
	c, err := client.New(server.URL+"/prod", client.Options{HTTP: &http.Client{Transport: s.Signer()}, MinBackoff: time.Millisecond, MaxElapsed: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "o-1", Body: []byte("1")}); err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func signature(t *testing.T, r *http.Request, body string) string {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_, signed, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	signed, _, _ = strings.Cut(signed, ",")
	for name := range strings.SplitSeq(signed, ";") {
		if name != "host" && name != "content-length" {
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, again, sum(body), "execute-api", "us-east-1", at); err != nil {
		t.Fatal(err)
	}
	return again.Header.Get("Authorization")
}

func sum(body string) string {
	h := sha256.Sum256([]byte(body))
	return hex.EncodeToString(h[:])
}
