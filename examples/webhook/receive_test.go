package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

const (
	secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oneLine = `{"webhook_id":"github/Codertocat/Hello-World/1","event":"push","repository":"Codertocat/Hello-World","ref":"refs/heads/main",` +
		`"commit":"0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"}` + "\n"
)

func push(t *testing.T) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/push.json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// receiver opens the receiver on a file.
func receiver(t *testing.T, file string) http.Handler {
	t.Helper()
	j, err := openJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.file.Close() })
	h, err := receive(secret, j, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// relay runs once.yaml, changed for the receiver of this test, until the test ends, and gives its
// address.
func relay(t *testing.T, receiver string) string {
	t.Helper()
	text, err := os.ReadFile("once.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEBHOOK_TEST_SECRET", secret)
	config := strings.NewReplacer("http://127.0.0.1:8090", receiver, "file:out/webhook-secret", "env:WEBHOOK_TEST_SECRET").Replace(string(text))
	address := make(chan string, 1)
	sys, err := embedded.Open(t.TempDir(), embedded.Options{Config: config, Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-address:
		return "http://" + a
	case err := <-ended:
		ended <- nil
		t.Fatalf("ended: %v", err)
		return ""
	}
}

func TestADeliverySentThreeTimesIsReceivedOnceIfItsAnswerIsLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "received.jsonl")
	inner, requests := receiver(t, file), atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		if requests.Add(1) == 1 {
			panic(http.ErrAbortHandler) // received and kept, but without an answer
		}
	}))
	defer server.Close()
	c, err := client.New(relay(t, server.URL), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := c.Send(t.Context(), client.Message{
			Stream: "github", Key: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Group: "Codertocat/Hello-World",
			ContentType: "application/json", Headers: map[string]string{"X-GitHub-Event": "push"}, Body: push(t), Wait: 30 * time.Second,
		})
		if err != nil || r.Status != "done" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests: the one without an answer and its repetition are 2", n)
	}
	received(t, file, oneLine)
}

func received(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("received (-want +got)\n%s", diff)
	}
}

// post sends a signed request to the receiver and returns the status.
func post(t *testing.T, h http.Handler, key, id string, body []byte) int {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/hook", bytes.NewReader(body))
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Webhook-Signature", signature)
	r.Header.Set("X-GitHub-Event", "push")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestARestartedReceiverRemembersAndCutsHalfALine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "received.jsonl")
	const id = "github/Codertocat/Hello-World/1"
	if code := post(t, receiver(t, file), secret, id, push(t)); code != http.StatusNoContent {
		t.Fatalf("status %d", code)
	}
	if err := os.WriteFile(file, []byte(oneLine+`{"webhook_id":"half of`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := receiver(t, file)
	for _, next := range []string{id, "next"} {
		if code := post(t, again, secret, next, push(t)); code != http.StatusNoContent {
			t.Errorf("%s: status %d", next, code)
		}
	}
	received(t, file, oneLine+strings.Replace(oneLine, id, "next", 1))
}

func TestAnUnsignedRequestOrAnotherEventIsNotReceived(t *testing.T) {
	file := filepath.Join(t.TempDir(), "received.jsonl")
	h := receiver(t, file)
	if code := post(t, h, "whsec_c29tZWJvZHkgZWxzZQ==", "1", push(t)); code != http.StatusUnauthorized {
		t.Errorf("another's signature: status %d", code)
	}
	if code := post(t, h, secret, "1", []byte("{")); code != http.StatusBadRequest {
		t.Errorf("half a push: status %d", code)
	}
	received(t, file, "")
}
