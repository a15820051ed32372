package embedded

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/dedup/admission"
)

// The power fails right after each receipt. No queue has the messages.
func TestAMessageThatIsDoneInItsReceiptIsDoneAfterAPowerFailure(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), vfs.NewCrashableMem()
	for _, key := range []string{"a1", "c1", "a2"} {
		s, _ := powered(t, disk, dir)
		s.direct.Open()
		w := post(s.Handler(), key, "")
		if w.Code != http.StatusAccepted || !strings.Contains(w.Body.String(), `"status":"done"`) {
			t.Fatalf("%s: %d %s", key, w.Code, w.Body)
		}
		disk = synced(disk)
		s.direct.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := powered(t, disk, dir)
	s.direct.Open()
	defer func() {
		s.direct.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for key, reply := range map[string]string{"a1": "a1 a/1", "a2": "a2 a/2", "c1": "echo c1"} {
		state, err := s.engine.Status(t.Context(), message(key))
		if err != nil || state.Status != admission.StatusDone {
			t.Errorf("%s: %+v, %v", key, state, err)
		}
		if w := post(s.Handler(), key, "wait=10"); w.Body.String() != reply || w.Header().Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s %v", key, w.Code, w.Body, w.Header())
		}
	}
	if n := s.queues.ingressFIFO.Len(); n > 0 {
		t.Error(errors.New("messages went through the queue"))
	}
}

// The power fails right after the results of a batch. No queue has its messages.
func TestABatchThatIsAnsweredIsDoneAfterAPowerFailure(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), vfs.NewCrashableMem()
	for _, keys := range [][]string{{"a1", "b1", "a2"}, {"c1", "d1", "c2"}} {
		s, _ := powered(t, disk, dir)
		s.direct.Open()
		if body := postBatch(t, s.Handler(), keys); strings.Count(body, `"status":202`) != len(keys) {
			t.Fatal(body)
		}
		if n := s.queues.ingressFIFO.Len(); n > 0 {
			t.Error("messages went through the queue")
		}
		disk = synced(disk)
		s.direct.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, _ = powered(t, disk, dir)
		for _, key := range keys {
			if state, err := s.engine.Status(t.Context(), message(key)); err != nil || state.Status != admission.StatusDone {
				t.Errorf("%s: %+v, %v", key, state.Status, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// postBatch sends the messages of keys, which are of one stream, and returns the results.
func postBatch(t *testing.T, h http.Handler, keys []string) string {
	t.Helper()
	var lines strings.Builder
	for _, key := range keys {
		m := message(key)
		fmt.Fprintf(&lines, `{"key":%q,"group":%q,"content_type":"text/plain","body":%q}`+"\n", m.ID, m.Group, m.Body)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/streams/"+message(keys[0]).Stream+"/batch", strings.NewReader(lines.String()))
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}
