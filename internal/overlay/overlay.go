// Package overlay changes source on its way to the compiler, by the -overlay of go build and go test: what tests need and the product must not have a switch for. It is for tests.
//
// # Errors
//
// A change whose text is not in its file exactly once is an error: the source has moved on, and the change must follow it.
package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Change replaces a text that is in a file once. Without an old text it is the whole of a file that is not there.
type Change struct {
	// File is relative to the root of the module.
	File string `yaml:"file"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
}

// Apply makes changes, one after the other, and gives the content of the changed files by their absolute paths. Nothing is written.
func Apply(root string, changes []Change) (map[string]string, error) {
	root, err := filepath.Abs(root) // as the compiler names files
	if err != nil {
		return nil, fmt.Errorf("change source: %w", err)
	}
	files := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(root, c.File)
		if files[path], err = c.in(path, files[path]); err != nil {
			return nil, fmt.Errorf("change source: %w", err)
		}
	}
	return files, nil
}

// in gives the content of a file with the change in it. The text is what earlier changes have made of the file; there is none before the first.
func (c Change) in(path, text string) (string, error) {
	if text == "" {
		b, err := os.ReadFile(path) //nolint:gosec // named by whoever changes it
		if c.Old == "" && errors.Is(err, fs.ErrNotExist) {
			return c.New, nil
		}
		if err != nil {
			return "", err
		}
		text = string(b)
	}
	if n := strings.Count(text, c.Old); n != 1 {
		return "", fmt.Errorf("%s has the text %d times, not once: %q", c.File, n, c.Old)
	}
	return strings.Replace(text, c.Old, c.New, 1), nil
}

// Write puts changed files into a folder, which may have those of other overlays, and gives the path of the list for the compiler.
func Write(folder string, files map[string]string) (string, error) {
	own, err := os.MkdirTemp(folder, "overlay-")
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	replace := map[string]string{}
	for path, content := range files {
		changed := filepath.Join(own, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(changed, []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("write overlay: %w", err)
		}
		replace[path] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	name := filepath.Join(own, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}
