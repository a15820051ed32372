// Package blob defines the keys of objects, the same for a folder and a bucket, so that a handler
// that works on a laptop works in AWS.
package blob

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits in bytes: of a key, as in S3, and of each of its parts, as in file systems.
const (
	maxKey  = 1024
	maxPart = 255
)

// The folders beside the published objects: for staged objects, for values that are too large for a
// store's records, and for bodies that are too large for a queue.
const (
	Staged = ".staged"
	Claims = ".claims"
	Bodies = ".bodies"
)

// An InvalidError names the rule that a key or a staged name breaks.
type InvalidError struct{ Rule string }

// Error returns the rule.
func (e *InvalidError) Error() string { return "blob key " + e.Rule }

// Check checks a key: a relative path of at most 1024 bytes, with parts between slashes. Each part
// has 1 to 255 bytes of UTF-8 without control characters and backslashes. No part is "." or "..",
// and the first is not [Staged], [Claims] or [Bodies] in any case. It returns an [*InvalidError].
func Check(key string) error {
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
		switch {
		case part == "" || part == "." || part == "..":
			return &InvalidError{`must be relative, without empty parts, "." and ".."`}
		case len(part) > maxPart:
			return &InvalidError{fmt.Sprintf("must not have a part of more than %d bytes", maxPart)}
		}
	}
	for _, own := range []string{Staged, Claims, Bodies} {
		if strings.EqualFold(parts[0], own) {
			return &InvalidError{"must not start with " + own}
		}
	}
	return nil
}

// Escape returns a staged name, which may be any text, as one part of a path. The error is an
// [*InvalidError].
func Escape(staged string) (string, error) {
	part := url.PathEscape(staged)
	switch {
	case strings.Trim(part, ".") == "":
		return "", &InvalidError{"is staged under an empty name or dots"}
	case len(part) > maxPart:
		return "", &InvalidError{"is staged under a name that is too long"}
	}
	return part, nil
}

// Unescape is the inverse of Escape.
func Unescape(part string) (string, bool) {
	staged, err := url.PathUnescape(part)
	return staged, err == nil && staged != ""
}
