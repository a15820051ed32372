// Package smoke asks a deployed system whether it is alive, through its front door: ONCE_API_URL is its address, ONCE_STREAM a stream of key admission whose
// handler needs nothing of the body. The names of what it sends are new in every run, so it can be run against the same system again.
package smoke

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// patience is how long a message may take from a queue through two functions that have never run.
const patience = time.Minute

// deployed gives the address of the stream.
func deployed(t *testing.T) string {
	t.Helper()
	address := os.Getenv("ONCE_API_URL")
	if address == "" {
		t.Skip("ONCE_API_URL is not set: there is no deployed system")
	}
	stream := os.Getenv("ONCE_STREAM")
	if stream == "" {
		stream = "messages"
	}
	return strings.TrimSuffix(address, "/") + "/v1/streams/" + stream
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// state is the status that an answer names.
func (a answer) state(t *testing.T) string {
	t.Helper()
	var named struct{ Status string }
	if err := json.Unmarshal(a.body, &named); err != nil {
		t.Fatalf("answer %d %q: %v", a.status, a.body, err)
	}
	return named.Status
}

func ask(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, content}
}

func TestAMessageSentTwiceIsProcessedOnce(t *testing.T) {
	stream := deployed(t)
	key := uuid.NewString()
	send := func(body string) answer {
		return ask(t, "POST", stream+"/messages", body, "Idempotency-Key", key, "Once-Group", "smoke", "Content-Type", "application/json")
	}
	first := send(`{"amount": 100}`)
	if first.status != http.StatusAccepted || first.header.Get("Idempotent-Replayed") != "" {
		t.Fatalf("first answer: %d %v %s", first.status, first.header, first.body)
	}
	again := send(`{"amount": 100}`)
	if again.status != http.StatusAccepted || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("second answer: %d %v %s", again.status, again.header, again.body)
	}
	untilDone(t, stream+"/messages/"+key)
	late := send(`{"amount": 100}`)
	if late.status != first.status || late.header.Get("Idempotent-Replayed") != "true" || !bytes.Equal(late.body, first.body) {
		t.Errorf("answer to a late duplicate: %d %v %s; the first was %s", late.status, late.header, late.body, first.body)
	}
	if other := send(`{"amount": 999}`); other.status != http.StatusUnprocessableEntity {
		t.Errorf("answer to another message under the same key: %d %s", other.status, other.body)
	}
}

// untilDone looks a message up until it has been processed and published.
func untilDone(t *testing.T, url string) {
	t.Helper()
	began, state := time.Now(), ""
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < patience {
		found := ask(t, "GET", url, "")
		if found.status != http.StatusOK {
			t.Fatalf("look up: %d %s", found.status, found.body)
		}
		if state = found.state(t); state == "done" {
			t.Logf("done after %v", time.Since(began).Round(100*time.Millisecond))
			return
		}
		<-tick.C
	}
	t.Fatalf("after %v the message is still %s", patience, state)
}

func TestAOneTimeRequestIsStoredRunAndForgottenOnce(t *testing.T) {
	url := deployed(t) + "/requests/" + uuid.NewString()
	for _, step := range []struct {
		method, body string
		status       int
	}{
		{"POST", "", http.StatusNotFound},
		{"PUT", "pay", http.StatusCreated},
		{"PUT", "pay", http.StatusOK},
		{"PUT", "pay twice", http.StatusUnprocessableEntity},
		{"POST", "", http.StatusOK},
		{"POST", "", http.StatusOK},
		{"DELETE", "", http.StatusNoContent},
		{"DELETE", "", http.StatusNoContent},
		{"POST", "", http.StatusGone},
	} {
		if got := ask(t, step.method, url, step.body); got.status != step.status {
			t.Errorf("%s %q: %d %s, want %d", step.method, step.body, got.status, got.body, step.status)
		}
	}
}
