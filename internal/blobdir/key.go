package blobdir

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on names, in bytes.
const (
	maxKey  = 1024
	maxPart = 255 // what file systems allow
)

// An InvalidError says which rule a key or a staged name breaks.
type InvalidError struct{ Rule string }

func (e *InvalidError) Error() string { return "blob key " + e.Rule }

// ValidKey checks a key: a relative path of parts between slashes, each of 1 to 255 bytes of UTF-8 without control characters and
// backslashes, none of them "." or "..", the first not ".staged" in any case, 1024 bytes together. The error is an [*InvalidError].
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
		switch {
		case part == "" || part == "." || part == "..":
			return &InvalidError{`must be relative, without empty parts, "." and ".."`}
		case len(part) > maxPart:
			return &InvalidError{fmt.Sprintf("must not have a part of more than %d bytes", maxPart)}
		}
	}
	if strings.EqualFold(parts[0], staging) {
		return &InvalidError{"must not start with " + staging}
	}
	if !filepath.IsLocal(filepath.FromSlash(key)) { // names that the operating system keeps for itself
		return &InvalidError{"must be a path that the operating system allows"}
	}
	return nil
}

// stagedPath is the file of a staged name, which may hold any text: what a path would interpret is escaped.
func stagedPath(staged string) (string, error) {
	name := url.PathEscape(staged)
	if strings.Trim(name, ".") == "" {
		return "", &InvalidError{"is staged under an empty name or dots"}
	}
	if len(name) > maxPart {
		return "", &InvalidError{"is staged under a name that is too long"}
	}
	return staging + "/" + name, nil
}

// Check is [ValidKey].
func (d *Dir) Check(key string) error { return ValidKey(key) }
