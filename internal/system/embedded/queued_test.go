package embedded

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// TestOnlyInAnOrderedGroupAMessageInTheQueueWaitsForTheFailuresOfOthers looks at messages that no
// worker receives, beside a failure of another message of their group.
func TestOnlyInAnOrderedGroupAMessageInTheQueueWaitsForTheFailuresOfOthers(t *testing.T) {
	s, err := Open(Options{DataDir: t.TempDir(), Config: &config.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing to lose
	if _, err := s.Start([]system.Stream{
		{Stream: record.Stream{Name: "orders", Handler: echo}}, {Stream: record.Stream{Name: "chat", Admission: record.BySequence, Handler: echo}},
	}); err != nil {
		t.Fatal(err)
	}
	for stream, c := range map[string]struct {
		id      string
		headers map[string]string
		want    admin.WaitKind
	}{
		"orders": {"a", map[string]string{"Idempotency-Key": "a"}, admin.WaitRetry},
		"chat":   {"ann/0/1", map[string]string{"Once-Source": "ann", "Once-Sequence": "1"}, admin.WaitQueue},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/streams/"+stream+"/messages", strings.NewReader("x"))
		r.Header.Set("Once-Group", "g")
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", stream, w.Code, w.Body)
		}
		s.waiting.Failed(system.Wait{Group: record.GroupKey{Stream: stream, Group: "g"}, ID: "other", Try: 1, Error: "boom"})
		info, err := s.Message(t.Context(), stream, c.id)
		if err != nil || len(info.Waiting) != 1 || info.Waiting[0].For != c.want {
			t.Errorf("%s: %+v, %v", stream, info.Waiting, err)
		}
	}
}
