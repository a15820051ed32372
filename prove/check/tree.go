package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A tree is the source: the files that git knows, and those that it would add.
type tree struct {
	root  string
	files []string // with slashes, sorted
}

func openTree(ctx context.Context, root string) (*tree, error) {
	t := &tree{root: root}
	listed, err := t.command(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(listed, "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); name != "" && !errors.Is(err, fs.ErrNotExist) {
			t.files = append(t.files, name)
		}
	}
	slices.Sort(t.files)
	t.files = slices.Compact(t.files)
	return t, nil
}

// command runs a program in the root, and returns its output.
func (t *tree) command(ctx context.Context, name string, args ...string) (string, error) {
	var problems bytes.Buffer
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // git and go
	c.Dir, c.Stderr = t.root, &problems
	out, err := c.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, out, problems.String())
	}
	return string(out), nil
}

// ancestor returns an error if HEAD does not descend from a revision.
func (t *tree) ancestor(ctx context.Context, revision string) error {
	if _, err := t.command(ctx, "git", "merge-base", "--is-ancestor", revision, "HEAD"); err != nil {
		return fmt.Errorf("HEAD does not descend from the base %s in this clone", revision)
	}
	return nil
}

// known returns an error if the clone does not have a revision.
func (t *tree) known(ctx context.Context, revision string) error {
	if _, err := t.command(ctx, "git", "rev-parse", "--verify", "--quiet", revision+"^{commit}"); err != nil {
		return fmt.Errorf("the base %s is not in this clone", revision)
	}
	return nil
}

func (t *tree) read(name string) ([]byte, error) { return fs.ReadFile(os.DirFS(t.root), name) }

// each calls do for the files whose names end so, and that are not data of a test.
func (t *tree) each(end string, do func(name string, text []byte) error) error {
	for _, name := range t.files {
		if !strings.HasSuffix(name, end) || has(path.Dir(name), "testdata", "node_modules", ".tools") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return err
		}
		if err := do(name, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// has reports whether one part of the folder is one of the names.
func has(folder string, names ...string) bool {
	return slices.ContainsFunc(strings.Split(folder, "/"), func(part string) bool { return slices.Contains(names, part) })
}

// forTests reports whether a Go file holds tests or supports them, and is not shipped.
func forTests(name string) bool {
	folder := path.Dir(name)
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(folder, "internal/testkit/") || slices.Contains(testPackages(), folder)
}

// testPackages returns the folders of other packages that only tests import.
func testPackages() []string {
	return []string{
		"internal/dedup/storetest", "internal/delay/delaytest", "internal/handler/handlertest",
		"internal/queue/queuetest", "internal/system/deployed/stacktest",
	}
}
