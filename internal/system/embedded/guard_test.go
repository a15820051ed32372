package embedded

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAPageOfAnotherOriginOrANameThatIsNotTheServersIsRefused(t *testing.T) {
	o := Options{Listen: "once.internal:8080", AllowHosts: []string{"API.example.com"}}
	h := guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }), o.names(), nil, func(string) {})
	for _, c := range []struct {
		method, host, origin, site string
		want                       int
	}{
		{"POST", "127.0.0.1:8080", "", "", http.StatusAccepted},
		{"POST", "localhost:8080", "", "", http.StatusAccepted},
		{"POST", "[::1]:8080", "", "", http.StatusAccepted},
		{"POST", "192.168.1.7:8080", "", "", http.StatusAccepted},
		{"POST", "once.internal:8080", "", "", http.StatusAccepted},
		{"POST", "api.example.com", "", "", http.StatusAccepted},
		{"POST", "evil.example:8080", "", "", http.StatusForbidden},
		{"GET", "evil.example:8080", "", "", http.StatusForbidden},
		{"POST", "127.0.0.1.evil.example:8080", "", "", http.StatusForbidden},
		{"POST", "localhost:8080", "http://localhost:8080", "same-origin", http.StatusAccepted},
		{"POST", "localhost:8080", "https://evil.example", "cross-site", http.StatusForbidden},
		{"POST", "localhost:8080", "https://evil.example", "", http.StatusForbidden},
		{"DELETE", "localhost:8080", "null", "cross-site", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/v1/streams/orders/requests/x", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s from origin %q to host %s: %d, want %d", c.method, c.origin, c.host, w.Code, c.want)
		}
		if c.want == http.StatusForbidden && (!strings.Contains(w.Header().Get("Content-Type"), "problem+json") || !strings.Contains(w.Body.String(), "--allow-host NAME")) {
			t.Errorf("host %s: no problem with a remedy: %s", c.host, w.Body.String())
		}
		if c.want == http.StatusForbidden && c.origin != "" && !strings.Contains(w.Body.String(), "server.cors.origins") {
			t.Errorf("origin %s: the remedy of once serve is missing: %s", c.origin, w.Body.String())
		}
	}
}
