package blobs3

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey is what S3 allows, in bytes.
const maxKey = 1024

// claims is where a store may keep what is too large for its records, in the same bucket.
const claims = ".claims/"

// An InvalidError says which rule a key or a staged name breaks.
type InvalidError struct{ Rule string }

func (e *InvalidError) Error() string { return "blob key " + e.Rule }

// ValidKey checks a key by the rules that objects in folders have too: a relative path of parts between slashes, of UTF-8 without control characters and backslashes, none of
// them empty, "." or "..", the first not ".staged" or ".claims" in any case, 1024 bytes together. The error is an [*InvalidError].
func ValidKey(key string) error {
	switch {
	case key == "" || len(key) > maxKey:
		return &InvalidError{fmt.Sprintf("must have 1 to %d bytes", maxKey)}
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return &InvalidError{"must be UTF-8 text without control characters"}
	case strings.Contains(key, `\`):
		return &InvalidError{"must separate its parts by slashes"}
	}
	parts := strings.Split(key, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return &InvalidError{`must be relative, without empty parts, "." and ".."`}
		}
	}
	for _, own := range []string{Prefix, claims} {
		if strings.EqualFold(parts[0]+"/", own) {
			return &InvalidError{"must not start with " + own}
		}
	}
	return nil
}

// stagedKey is the key of a staged name, which may hold any text: what a path would interpret is escaped.
func stagedKey(staged string) (string, error) {
	key := Prefix + url.PathEscape(staged)
	switch {
	case strings.Trim(staged, ".") == "":
		return "", &InvalidError{"is staged under an empty name or dots"}
	case len(key) > maxKey:
		return "", &InvalidError{"is staged under a name that is too long"}
	}
	return key, nil
}

// stagedName reads a staged key.
func stagedName(key string) (string, bool) {
	name, err := url.PathUnescape(strings.TrimPrefix(key, Prefix))
	return name, err == nil && name != ""
}

// escape writes a key as it stands in a header.
func escape(key string) string {
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
