package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
)

// An open session that has nothing to do is renewed several times a minute.
func TestIdleSessionsWriteNothing(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("once.yaml", []byte("streams: {work: {pool: {}}, room: {log: {}}}"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Config: c, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Start(nil); err != nil {
		t.Fatal(err)
	}
	call := func(method, path, body string) (fence uint64) {
		t.Helper()
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		if w.Code != http.StatusOK && w.Code != http.StatusNoContent {
			t.Fatal(w.Code, w.Body)
		}
		var answer struct{ Fence uint64 }
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
		}
		return answer.Fence
	}
	fences := map[string]uint64{}
	for i := range 50 {
		for _, path := range []string{"/v1/streams/work/sessions/", "/v1/streams/room/groups/g/sessions/"} {
			path += fmt.Sprint("s", i)
			fences[path] = call("POST", path, `{"holder":"test"}`)
		}
	}
	written := s.db.Metrics().WAL.BytesIn
	for path, fence := range fences {
		call("POST", path+"/renew", fmt.Sprintf(`{"fence":%d}`, fence))
		call("GET", fmt.Sprintf("%s/entries?fence=%d", path, fence), "")
	}
	s.sweepEnds(t.Context())
	s.sweepSessions(t.Context())
	s.flush()
	if n := s.db.Metrics().WAL.BytesIn - written; n > 0 {
		t.Errorf("idle sessions have written %d bytes", n)
	}
}
