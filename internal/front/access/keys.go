package access

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/roles"
)

// A key is a line of a list: the hash of a key, and whose it is.
type key struct {
	hash   [sha256.Size]byte
	caller Caller
}

const keyPrefix = "key:" // of principals

// parseKeys reads a list of keys. A line has a principal, a key, and optionally the streams that
// the principal may use with it, with commas between them; auth has the roles. Errors name the line
// and never a key.
func parseKeys(text string, auth *config.Auth, streams []string) ([]key, error) {
	var keys []key
	lines := map[[sha256.Size]byte]int{}
	scan := bufio.NewScanner(strings.NewReader(text))
	for at := 1; scan.Scan(); at++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, err := parseKey(line, auth, streams)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		if first := lines[k.hash]; first != 0 {
			return nil, fmt.Errorf("line %d: has the key of line %d: make another one, with openssl rand -hex 32", at, first)
		}
		lines[k.hash] = at
		keys = append(keys, k)
	}
	if err := scan.Err(); err != nil { // the line is too long
		return nil, fmt.Errorf("line after %d keys: %w", len(keys), err)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key: a line has a principal and a key")
	}
	return keys, nil
}

func parseKey(line string, auth *config.Auth, streams []string) (key, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 || len(fields) > 3 {
		return key{}, errors.New("must be PRINCIPAL KEY, or PRINCIPAL KEY STREAM,STREAM")
	}
	name, secret := fields[0], fields[1]
	switch {
	case len(name) > config.MaxCaller || !visible(name):
		return key{}, fmt.Errorf("the principal must be at most %d visible ASCII characters", config.MaxCaller)
	case !visible(secret):
		return key{}, errors.New("the key must be visible ASCII characters: make one with openssl rand -hex 32")
	case len(secret) < config.MinKey:
		return key{}, fmt.Errorf("the key must be at least %d characters: make one with openssl rand -hex 32", config.MinKey)
	}
	k := key{sha256.Sum256([]byte(secret)), Caller{Caller: roles.Caller{Principal: keyPrefix + name, All: len(fields) == 2, Grants: auth.GrantsOf(name)}}}
	if len(fields) == 3 {
		k.caller.Streams = strings.Split(fields[2], ",")
	}
	for i, stream := range k.caller.Streams {
		if !slices.Contains(streams, stream) {
			return key{}, fmt.Errorf("name %d in the list of streams is not a stream; there are: %s", i+1, strings.Join(streams, ", "))
		}
	}
	return k, nil
}

// parseOperators reads the keys of operators, one on each line, and returns their hashes. Errors
// name the line and never a key.
func parseOperators(text string) (keys [][sha256.Size]byte, err error) {
	at := 0
	for line := range strings.Lines(text) {
		at++
		secret := strings.TrimSpace(line)
		if secret == "" || strings.HasPrefix(secret, "#") {
			continue
		}
		if len(secret) < config.MinKey || !visible(secret) {
			return nil, fmt.Errorf("line %d: the key must be at least %d visible ASCII characters: make one with openssl rand -hex 32", at, config.MinKey)
		}
		keys = append(keys, sha256.Sum256([]byte(secret)))
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key: make one with openssl rand -hex 32")
	}
	return keys, nil
}

func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// find returns the caller with a key. Its time does not depend on how much of a key is right.
func find(keys []key, secret string) (Caller, bool) {
	hash := sha256.Sum256([]byte(secret))
	found := -1
	for i := range keys {
		if subtle.ConstantTimeCompare(keys[i].hash[:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Caller{}, false
	}
	return keys[found].caller, true
}

// Callers returns the callers with keys, each with its streams and roles, in the order of the list.
func Callers(c *config.Server, streams []string) ([]Caller, error) {
	if c.Auth == nil || c.Auth.Keys == "" {
		return nil, nil
	}
	text, err := c.Auth.Keys.ResolveLines()
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text, c.Auth, streams)
	if err != nil {
		return nil, fmt.Errorf("server.auth.keys: %w", err)
	}
	var out []Caller
	for _, k := range keys {
		if !slices.ContainsFunc(out, func(c Caller) bool { return reflect.DeepEqual(c, k.caller) }) {
			out = append(out, k.caller)
		}
	}
	return out, nil
}

// Name returns the principal as the list of keys and the roles have it.
func (c Caller) Name() string { return strings.TrimPrefix(c.Principal, keyPrefix) }
