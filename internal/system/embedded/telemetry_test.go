package embedded_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
)

func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", path, resp.StatusCode, body, err)
	}
	_ = resp.Body.Close()
	return string(body)
}

func TestMetricsAreScrapedFromTheAddressOfTheSystem(t *testing.T) {
	p := place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	for range 2 {
		r.send(t, client.Message{Stream: "orders", Key: "a", Group: "g", Body: []byte(`{}`)})
	}
	r.idle(t)
	text := r.get(t, "/metrics")
	for _, want := range []string{
		`once_processed_total{stream="orders"} 1`, `once_published_total{stream="orders"} 1`, `once_replayed_total{stream="orders"} 1`,
		`once_accept_time_seconds_count{stream="orders"} 1`, `once_queue_messages{queue="ingress-dead",state="ready"} 0`, "go_goroutines ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+r.address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %d", resp.StatusCode)
	}
}
