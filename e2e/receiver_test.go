package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// contractSecret is what receiver and sender know; as a variable it is whsec_ and this in base64.
const contractSecret = "the receiver and the sender know"

// A receiver takes webhooks as a careful receiver does: it checks the signature and remembers webhook-id. It fails from time to time, before it has
// handled a request and after it.
type receiver struct {
	url    string
	secret []byte
	// trouble is the share of requests that go wrong.
	trouble float64
	gone    atomic.Bool // it wants nothing any more

	mu       sync.Mutex
	handled  []post
	problems []string
}

// post is one request that was handled; copies are handled again, and recognised.
type post struct {
	stream    string
	webhookID string
	group     string
	number    uint64 // 0 where the message has no group
	id        string // of the message that was forwarded
	body      []byte
}

// newReceiver starts a receiver that lives as long as the test, whatever happens to the server.
func newReceiver(t *testing.T, trouble float64) *receiver {
	t.Helper()
	return newReceiverAt(t, "127.0.0.1:0", trouble)
}

// newReceiverAt starts a receiver at an address.
func newReceiverAt(t *testing.T, address string, trouble float64) *receiver {
	t.Helper()
	r := &receiver{secret: []byte(contractSecret), trouble: trouble}
	listener, err := net.Listen("tcp", address)
	must(t, err)
	server := httptest.NewUnstartedServer(r)
	must(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// env is what the server needs to know.
func (r *receiver) env() string {
	return "E2E_WEBHOOK_SECRET=whsec_" + base64.StdEncoding.EncodeToString(r.secret)
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.gone.Load() {
		w.WriteHeader(http.StatusGone)
		return
	}
	fate := rand.Float64()
	if fate < r.trouble/3 {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the server was killed while it sent
	}
	r.handle(req.Header, body)
	switch {
	case fate < r.trouble*2/3:
		panic(http.ErrAbortHandler) // handled, and the answer is lost
	case fate < r.trouble:
		http.Error(w, "too late to tell", http.StatusBadGateway)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (r *receiver) handle(h http.Header, body []byte) {
	p := post{stream: h.Get("Once-Stream"), webhookID: h.Get("Webhook-Id"), group: h.Get("Once-Group"), id: h.Get("Once-Id"), body: body}
	var err error
	if text := h.Get("Once-Number"); text != "" {
		p.number, err = strconv.ParseUint(text, 10, 64)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled = append(r.handled, p)
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
	if !signed(r.secret, h, body) {
		r.problems = append(r.problems, fmt.Sprintf("%s: wrong signature", p.webhookID))
	}
	if want := `"` + p.webhookID + `"`; h.Get("Idempotency-Key") != want {
		r.problems = append(r.problems, fmt.Sprintf("%s: Idempotency-Key is %s", p.webhookID, h.Get("Idempotency-Key")))
	}
}

// signed checks a Standard Webhooks signature by hand.
func signed(secret []byte, h http.Header, body []byte) bool {
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return subtle.ConstantTimeCompare([]byte(want), []byte(h.Get("Webhook-Signature"))) == 1
}

// seen gives what was handled so far, and what was wrong with it.
func (r *receiver) seen() ([]post, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post(nil), r.handled...), append([]string(nil), r.problems...)
}
