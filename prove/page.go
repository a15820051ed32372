package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// documented compares a table with the one between its marks in docs/correctness.md, or writes it
// there.
func (o options) documented(name, table string) error {
	path := filepath.Join(o.root, "docs/correctness.md")
	page, err := os.ReadFile(path) //nolint:gosec // the page of this source
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), "<!-- "+name+" -->\n")
	was, after, ok2 := strings.Cut(rest, "<!-- end of "+name+" -->\n")
	switch {
	case !ok || !ok2:
		return fmt.Errorf("%s has no marks for the table of %s", path, name)
	case strings.TrimSpace(was) == strings.TrimSpace(table):
		return nil
	case !o.update:
		return fmt.Errorf("the table of %s in %s differs from the result: update it with -update\n%s", name, path, table)
	}
	text := before + "<!-- " + name + " -->\n\n" + table + "\n<!-- end of " + name + " -->\n" + after
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // as all pages
}
