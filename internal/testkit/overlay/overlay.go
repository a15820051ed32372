// Package overlay changes source code for a build, by the -overlay option of go build and go test,
// so that tests can change behaviour for which the product should have no switch. It is for tests.
//
// # Errors
//
// If the old text of a change is not in its file exactly once, Apply returns an error: the source
// has changed, and the change must be adapted.
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

// A Change replaces a text that occurs once in a file. If Old is empty, it adds a file.
type Change struct {
	// File is relative to the root of the module.
	File string `yaml:"file"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
}

// Apply applies changes in order, and returns the content of the changed files by their absolute
// paths. It writes nothing.
func Apply(root string, changes []Change) (map[string]string, error) {
	root, err := filepath.Abs(root) // the compiler uses absolute names
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

// in returns the content of a file with the change applied. text is the content after earlier
// changes, or empty if this is the first.
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

// Write writes changed files into a folder, which may contain those of other overlays, and returns
// the path of the overlay file for the compiler.
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
