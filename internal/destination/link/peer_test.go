package link_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/destination/link"
	"github.com/effectively-once/once/internal/record"
)

// A message is a line of a batch as the other system gets it.
type message struct {
	Key         string            `json:"key"`
	Group       string            `json:"group"`
	Source      string            `json:"source"`
	Epoch       uint64            `json:"epoch"`
	Sequence    uint64            `json:"sequence"`
	DependsOn   map[string]uint64 `json:"depends_on"`
	Via         []string          `json:"via"`
	Void        bool              `json:"void"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        []byte            `json:"body_base64"`
}

// A peer is the HTTP API of another system. It answers each line as answer says, or if that is
// nil or returns nothing with 202.
type peer struct {
	*httptest.Server
	answer func(m message) string
	whole  func(w http.ResponseWriter, r *http.Request) bool // answers a whole request

	mu       sync.Mutex
	got      []message
	requests []*http.Request
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP implements [http.Handler].
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, r)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var out strings.Builder
	for line := range strings.Lines(string(body)) {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.got = append(p.got, m)
		answer := ""
		if p.answer != nil {
			answer = p.answer(m)
		}
		if answer == "" {
			answer = fmt.Sprintf(`{"status":202,"id":%q,"replayed":false}`, m.Key)
		}
		out.WriteString(answer + "\n")
	}
	if p.whole != nil && p.whole(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = io.WriteString(w, out.String())
}

// problem answers a line with a problem of a type.
func problem(status int, kind string) string {
	return fmt.Sprintf(`{"status":%d,"problem":{"type":"https://example/http.md#%s","title":"Refused","status":%d,"detail":"a -> b -> a"}}`, status, kind, status)
}

// count returns the number of requests.
func (p *peer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// numbers describes what the peer got: the numbers, with a v for a void message.
func (p *peer) numbers() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.got {
		text := fmt.Sprintf("%s%d", m.Group, m.Sequence)
		if m.Void {
			text += "v"
		}
		out = append(out, text)
	}
	return out
}

func newSender(t *testing.T, p *peer, change ...func(*link.Config)) *link.Sender {
	t.Helper()
	c := link.Config{System: "eu", Destination: "us", URL: p.URL + "/prod/", Stream: "room", Timeout: 5 * time.Second}
	for _, f := range change {
		f(&c)
	}
	s, err := link.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func delivery(group string, n uint64) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprintf("room/%s/%d", group, n), Stream: "room", Group: group, Number: n, Incarnation: 9, Sequence: n, Target: group,
		Effect: record.Effect{Body: []byte("b")},
	}
}

func deliveries(names string) (list []record.Delivery) {
	for name := range strings.FieldsSeq(names) {
		list = append(list, delivery(name[:1], uint64(name[1]-'0')))
	}
	return list
}

// fates describes results: ok, the reason of a refusal, or again.
func fates(errs []error) string {
	var out []string
	for _, err := range errs {
		refused, ok := errors.AsType[*record.RefusedError](err)
		switch {
		case err == nil:
			out = append(out, "ok")
		case ok:
			out = append(out, string(refused.Reason))
		default:
			out = append(out, "again")
		}
	}
	return strings.Join(out, " ")
}
