package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/effectively-once/once/internal/admin"
)

// asked is an Admin that only records the requested pages.
type asked struct {
	admin.Admin
	limits []int
	after  string
}

func (a *asked) Groups(_ context.Context, o admin.GroupsOptions) ([]admin.GroupInfo, error) {
	a.limits, a.after = append(a.limits, o.Limit), o.After
	return nil, nil
}

func (a *asked) DeadLetters(_ context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	a.limits = append(a.limits, o.Limit)
	return nil, nil
}

func (a *asked) Redrive(_ context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	a.limits = append(a.limits, o.Max)
	return admin.RedriveInfo{}, nil
}

// FuzzPage requests pages by any cursor and limit: invalid ones are refused before anything is
// done, and a cursor arrives unchanged.
func FuzzPage(f *testing.F) {
	for _, limit := range []string{"", "0", "10", "-1", "1e3", "99999999999999999999", " 1", "+1"} {
		f.Add(limit, "g\x00#ä")
	}
	f.Fuzz(func(t *testing.T, limit, after string) {
		for path, method := range map[string]string{"/groups": http.MethodGet, "/dead-letters": http.MethodGet, "/redrive": http.MethodPost} {
			a := &asked{}
			query := url.Values{"limit": {limit}, "max": {limit}, "after": {after}}
			w := httptest.NewRecorder()
			admin.Handler(a).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path+"?"+query.Encode(), nil))
			refused := w.Code == http.StatusBadRequest
			if !refused && w.Code != http.StatusOK || refused == (len(a.limits) > 0) || !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s: %d, asked %v: %s", path, w.Code, a.limits, w.Body)
			}
			if !refused && (a.limits[0] < 0 || path == "/groups" && a.after != after) {
				t.Fatalf("%s: page of %d after %q, for %q and %q", path, a.limits[0], a.after, limit, after)
			}
		}
	})
}
