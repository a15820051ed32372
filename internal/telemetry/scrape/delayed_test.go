package scrape_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/telemetry/scrape"
)

func TestDelayedMessagesAreCountedAndTheEarliestIsLateOnlyWhenItIsDue(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for next, late := range map[time.Time]string{{}: "0", now.Add(time.Hour): "0", now.Add(-90 * time.Second): "90"} {
		m := scrape.New(func() time.Time { return now }, func() []scrape.Depth { return nil })
		m.WatchDelayed(func() (int, time.Time) { return 7, next })
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range []string{"\nonce_delayed_messages 7\n", "\nonce_delayed_late_seconds " + late + "\n"} {
			if !strings.Contains(w.Body.String(), line) {
				t.Errorf("the earliest is due at %v: the metrics lack %q", next, line)
			}
		}
	}
}
