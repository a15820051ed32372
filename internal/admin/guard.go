package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// Path is the path under which the operations are served to other machines.
const Path = "/admin/v1"

// mark is a header of every answer of a guarded handler. Clients know by it that they have asked
// the right address.
const mark = "Once-Admin"

// maxForm is how large the form of a request may be: the ids of a drop are in it.
const maxForm = 1 << 20

// maxRunning is how many operations of other machines run at a time.
const maxRunning = 32

// Bounds of one answer to another machine.
const (
	maxListed  = 10_000
	maxContent = 128 << 20
)

// bounded refuses lists for which this machine would need much memory.
func bounded(limit, content int) error {
	limit = cmp.Or(limit, DefaultLimit)
	if content < 0 || content > record.MaxBody {
		content = record.MaxBody
	}
	switch {
	case limit > maxListed:
		return badRequest{fmt.Errorf("limit must be at most %d", maxListed)}
	case limit*content > maxContent:
		return badRequest{fmt.Errorf("with bodies of %d bytes, limit must be at most %d", content, maxContent/content)}
	}
	return nil
}

// Allowed reports whether a request has a known key as a bearer token. known must take as long for
// a wrong key as for the right one.
func Allowed(r *http.Request, known func(key string) bool) bool {
	key := Bearer(r)
	return key != "" && known(key)
}

// Bearer returns the bearer token of a request, or "" if there is none.
func Bearer(r *http.Request) string {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return ""
	}
	scheme, key, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// Guard serves requests that have a known key as a bearer token, and answers all others with 401.
// The key is all that it asks for: no page of a browser can add it to a request, so it needs to
// check neither the Origin nor the Host. See [Allowed].
func Guard(known func(key string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(mark, "1")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if !Allowed(r, known) {
			h.Set("WWW-Authenticate", `Bearer realm="once admin"`)
			h.Set("Connection", "close") // nobody without a key holds a connection
			fail(w, http.StatusUnauthorized, "an operator's key is needed, as Authorization: Bearer KEY")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Remote serves an Admin under [Path], for clients on other machines. The caller guards it.
func Remote(a Admin) http.Handler {
	operations, running := http.StripPrefix(Path, handler(a, bounded)), make(chan struct{}, maxRunning)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case running <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d operations are running: try again later", maxRunning))
			return
		}
		defer func() { <-running }()
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		operations.ServeHTTP(w, r)
	})
}

func fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(failure{Error: text}) // an error means that the client is gone
}
