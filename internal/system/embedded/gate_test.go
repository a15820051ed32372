package embedded

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A program may serve the HTTP API by a server of its own, which goes on after Run.
func TestARequestAfterTheEndIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	s := started(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	send := func() int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/streams/messages/messages", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", "a")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code
	}
	if code := send(); code != http.StatusAccepted {
		t.Errorf("before the end: %d", code)
	}
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for send() == http.StatusAccepted {
			time.Sleep(time.Millisecond)
		}
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-sending
	if code := send(); code != http.StatusServiceUnavailable {
		t.Errorf("after the end: %d", code)
	}
}
