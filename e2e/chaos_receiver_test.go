package e2e

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/effectively-once/once/e2e/chaos"
)

// A scribe is a webhook receiver that writes down every handled request; the judge detects copies.
// It fails like the other receiver, before and after it has handled a request.
type scribe struct {
	receiver // for its secret
	posts    *journal
	handled  atomic.Int64
	seen     sync.Map     // webhook-ids
	fresh    atomic.Int64 // the number of webhook-ids
}

func newScribe(t *testing.T, folder string, trouble float64) *scribe {
	t.Helper()
	s := &scribe{receiver: receiver{secret: []byte(contractSecret), trouble: trouble}}
	var err error
	s.posts, err = newJournal(folder, "posts.jsonl")
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *scribe) serve(w http.ResponseWriter, r *http.Request) {
	fate := rand.Float64()
	if fate < s.trouble/3 {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed while it sent
	}
	s.note(r.Header, body)
	switch {
	case fate < s.trouble*2/3:
		panic(http.ErrAbortHandler) // handled, and the answer is lost
	case fate < s.trouble:
		http.Error(w, "too late to tell", http.StatusBadGateway)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *scribe) note(h http.Header, body []byte) {
	p := chaos.Post{
		Stream: h.Get("Once-Stream"), ID: h.Get("Once-Id"), WebhookID: h.Get("Webhook-Id"), Group: h.Get("Once-Group"),
		ContentType: h.Get("Content-Type"), SHA256: chaos.Digest(h.Get("Content-Type"), body),
	}
	if text := h.Get("Once-Number"); text != "" {
		var err error
		if p.Number, err = strconv.ParseUint(text, 10, 64); err != nil {
			p.Wrong = err.Error()
		}
	}
	if !signed(s.secret, h, body) {
		p.Wrong += " wrong signature"
	}
	if h.Get("Idempotency-Key") != `"`+p.WebhookID+`"` {
		p.Wrong += " wrong Idempotency-Key"
	}
	s.posts.write(p)
	s.handled.Add(1)
	if _, again := s.seen.LoadOrStore(p.WebhookID, nil); !again {
		s.fresh.Add(1)
	}
}
