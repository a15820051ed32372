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

// contractSecret is shared by receiver and sender; the variable holds whsec_ and this in base64.
const contractSecret = "the receiver and the sender know"

// A receiver accepts webhooks as a careful receiver does: it checks the signature and remembers
// webhook-ids. It fails at random, before it has handled a request and after it.
type receiver struct {
	url    string
	secret []byte
	// trouble is the share of requests that fail.
	trouble float64
	gone    atomic.Bool // it answers 410 Gone

	mu       sync.Mutex
	handled  []post
	problems []string
}

// post is one handled request; copies are handled too, and detected.
type post struct {
	stream    string
	webhookID string
	group     string
	number    uint64 // 0 if the message has no group
	id        string // of the forwarded message
	body      []byte
}

// newReceiver starts a receiver that lives as long as the test, independently of the server.
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

// env returns the variable that the server needs.
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

// signed checks a Standard Webhooks signature without a library.
func signed(secret []byte, h http.Header, body []byte) bool {
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return subtle.ConstantTimeCompare([]byte(want), []byte(h.Get("Webhook-Signature"))) == 1
}

// seen returns the requests handled so far, and the problems with them.
func (r *receiver) seen() ([]post, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post(nil), r.handled...), append([]string(nil), r.problems...)
}
