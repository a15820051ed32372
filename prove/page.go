package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		return fmt.Errorf("the table of %s in %s differs from the result: update it with -update\n%s", name, path, differing(was, table))
	}
	text := before + "<!-- " + name + " -->\n\n" + table + "\n<!-- end of " + name + " -->\n" + after
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // as all pages
}

// differing returns the lines of one table only: those of the page after a minus, those of the
// result after a plus.
func differing(page, result string) string {
	var b strings.Builder
	only := func(sign, of, other string) {
		known := strings.Split(other, "\n")
		for line := range strings.SplitSeq(of, "\n") {
			if line != "" && !slices.Contains(known, line) {
				b.WriteString(sign + line + "\n")
			}
		}
	}
	only("-", page, result)
	only("+", result, page)
	return b.String()
}
