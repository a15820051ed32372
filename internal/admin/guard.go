package admin

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/effectively-once/once/internal/record"
)

// Path is the path under which the operations are served to other machines.
const Path = "/admin/v1"

// MinKey is the least length of a key, in bytes.
const MinKey = 20

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

// Keys are the keys of operators. Only their hashes are kept. The zero value has no keys, and
// allows nobody. Its methods may be called concurrently.
type Keys struct {
	hashes atomic.Pointer[[][sha256.Size]byte]
}

// Set replaces the keys. There may be several, with white space between them: a new key is added
// before the old one is removed. A key has at least [MinKey] bytes of visible ASCII. The error does
// not contain a key.
func (k *Keys) Set(text string) error {
	var hashes [][sha256.Size]byte
	for i, key := range strings.Fields(text) {
		if len(key) < MinKey {
			return fmt.Errorf("admin key %d has %d characters: at least %d are needed, as openssl rand -hex 32 makes them", i+1, len(key), MinKey)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("admin key %d has a character that is not visible ASCII", i+1)
		}
		hashes = append(hashes, sha256.Sum256([]byte(key)))
	}
	if len(hashes) == 0 {
		return errors.New("admin key is empty")
	}
	k.hashes.Store(&hashes)
	return nil
}

// allow reports whether a request has one of the keys. The time that it takes depends on the length
// of what was sent, and not on the keys.
func (k *Keys) allow(r *http.Request) bool {
	given := r.Header.Values("Authorization")
	hashes := k.hashes.Load()
	if hashes == nil || len(given) != 1 {
		return false
	}
	scheme, key, _ := strings.Cut(given[0], " ")
	hash, found := sha256.Sum256([]byte(strings.TrimSpace(key))), 0
	for i := range *hashes {
		found |= subtle.ConstantTimeCompare(hash[:], (*hashes)[i][:])
	}
	return found == 1 && strings.EqualFold(scheme, "bearer")
}

// Guard serves requests that have one of the keys as a bearer token, and answers all others with
// 401. The key is all that it asks for: no page of a browser can add it to a request, so it needs
// to check neither the Origin nor the Host.
func Guard(keys *Keys, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(mark, "1")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if !keys.allow(r) {
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
