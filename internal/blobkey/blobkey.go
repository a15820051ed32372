// Package blobkey says which keys objects may have, in a folder and in a bucket alike: what a handler writes on a laptop it may write in AWS.
package blobkey

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits, in bytes: of a key, as S3 has it, and of each of its parts, as file systems have it.
const (
	maxKey  = 1024
	maxPart = 255
)

// The folders beside the published objects: staged ones, and what a store keeps out of its records.
const (
	Staged = ".staged"
	Claims = ".claims"
)

// An InvalidError says which rule a key or a staged name breaks.
type InvalidError struct{ Rule string }

// Error gives the rule.
func (e *InvalidError) Error() string { return "blob key " + e.Rule }

// Check checks a key: a relative path of parts between slashes, each of 1 to 255 bytes of UTF-8 without control characters and backslashes, none of them "." or "..", the first not
// [Staged] or [Claims] in any case, 1024 bytes together. The error is an [*InvalidError].
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
	for _, own := range []string{Staged, Claims} {
		if strings.EqualFold(parts[0], own) {
			return &InvalidError{"must not start with " + own}
		}
	}
	return nil
}

// Escape makes one part of a path of a staged name, which may hold any text. The error is an [*InvalidError].
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

// Unescape reads what Escape made.
func Unescape(part string) (string, bool) {
	staged, err := url.PathUnescape(part)
	return staged, err == nil && staged != ""
}
