package access

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode"

	"github.com/effectively-once/once/internal/front/roles"
)

// A Caller is the authenticated sender of a request.
type Caller struct {
	roles.Caller

	issuer  *issuer   // of the token; nil for a key
	expires time.Time // the token
}

// maxPrincipal is below the limit on names in package record.
const maxPrincipal = 200

// tokenPrincipal returns the principal of a token. A long one is replaced by its hash.
func tokenPrincipal(issuer, value string) string {
	text := "jwt:" + issuer + "#" + value
	if len(text) <= maxPrincipal && !strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "jwt:sha256:" + hex.EncodeToString(sum[:])
}
