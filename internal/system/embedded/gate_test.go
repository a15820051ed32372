package embedded

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
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
			continue
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

func TestASystemThatIsToldToEndBeforeItIsReadyEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", config.MinKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	admin := &config.Admin{Listen: "localhost:0", Key: config.Secret("file:" + key)}
	for _, listen := range []string{"", "localhost:0"} {
		s := started(t, Options{Listen: listen, Server: &config.Server{Admin: admin}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Errorf("listening on %q: %v", listen, err)
		}
	}
}
