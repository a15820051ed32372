package powertools

import (
	"crypto/md5"  //nolint:gosec // the function that Powertools uses
	"crypto/sha1" //nolint:gosec // one that Powertools can use
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"unicode/utf16"
)

// A Language is one of the implementations of Powertools.
type Language string

// The languages.
const (
	Python     Language = "python"
	TypeScript Language = "typescript"
	Java       Language = "java"
)

// Valid returns an error if l is none of the languages.
func (l Language) Valid() error {
	switch l {
	case Python, TypeScript, Java:
		return nil
	}
	return fmt.Errorf("language %q is neither %q nor %q nor %q", string(l), Python, TypeScript, Java)
}

// ErrNoKey says that Powertools makes no record for a payload, because nothing is in it.
var ErrNoKey = errors.New("the payload has no value for a key")

// Key returns the key of a payload, which is JSON. An empty function is "md5".
func Key(l Language, prefix, function string, payload []byte) (string, error) {
	if err := l.Valid(); err != nil {
		return "", err
	}
	h, err := hashOf(function)
	if err != nil {
		return "", err
	}
	v, err := parse(payload)
	if err != nil {
		return "", err
	}
	if missing(l, v) {
		return "", ErrNoKey
	}
	_, _ = h.Write([]byte(written(l, v))) // a hash never fails
	sum := hex.EncodeToString(h.Sum(nil))
	if l == TypeScript {
		sum = base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return prefix + "#" + sum, nil
}

func hashOf(function string) (hash.Hash, error) {
	switch strings.ReplaceAll(strings.ToLower(function), "-", "") {
	case "", "md5":
		return md5.New(), nil //nolint:gosec // see its import
	case "sha1":
		return sha1.New(), nil //nolint:gosec // see its import
	case "sha256":
		return sha256.New(), nil
	case "sha512":
		return sha512.New(), nil
	}
	return nil, fmt.Errorf("hash function %q is none of md5, sha1, sha256 and sha512", function)
}

// written returns the text that is hashed.
func written(l Language, v value) string {
	if t, ok := v.(text); ok && l == Java { // Java hashes a text itself
		var b strings.Builder
		for _, r := range t {
			if utf16.IsSurrogate(r) {
				r = '?'
			}
			b.WriteRune(r)
		}
		return b.String()
	}
	f := formOf(l)
	var b strings.Builder
	f.write(&b, v)
	return b.String()
}

// missing reports whether Powertools skips a payload. TypeScript skips only null, by default.
func missing(l Language, v value) bool {
	if v == nil {
		return true
	}
	if l == TypeScript {
		return false
	}
	var within []value
	switch v := v.(type) {
	case list:
		within = v
	case object:
		within = v.values
	case text:
		return l == Python && len(v) == 0
	default:
		return false
	}
	for _, x := range within {
		if x != nil {
			return false
		}
	}
	return true
}
