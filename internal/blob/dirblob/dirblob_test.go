package dirblob

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/blob"
	"github.com/effectively-once/once/internal/record"
)

func open(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func stage(t *testing.T, d *Dir, staged, body string) {
	t.Helper()
	if err := d.Stage(t.Context(), staged, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, d *Dir, staged, key string) {
	t.Helper()
	if err := d.Publish(t.Context(), record.Blob{Key: key, Staged: staged}); err != nil {
		t.Fatal(err)
	}
}

// files lists all files below a folder, with their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := fs.ReadFile(root, name)
		found[name] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func want(t *testing.T, dir string, expected map[string]string) {
	t.Helper()
	if diff := cmp.Diff(expected, files(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestAStagedObjectBecomesVisibleUnderItsKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "blobs")
	d := open(t, dir)
	stage(t, d, "attempt.0", "one")
	want(t, dir, map[string]string{".staged/attempt.0": "one"})
	publish(t, d, "attempt.0", "x/y/z.txt")
	want(t, dir, map[string]string{"x/y/z.txt": "one"})
}

func TestPublishingAgainIsHarmless(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	stage(t, d, "first", "one")
	publish(t, d, "first", "k")
	stage(t, d, "second", "two")
	publish(t, d, "second", "k")
	publish(t, d, "first", "k")
	publish(t, d, "never", "other/folder")
	want(t, dir, map[string]string{"k": "two"})
}

func TestConcurrentPublishersDoNotFail(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	stage(t, d, "s", "one")
	var publishers sync.WaitGroup
	for range 8 {
		publishers.Go(func() {
			if err := d.Publish(context.Background(), record.Blob{Key: "a/b", Staged: "s"}); err != nil {
				t.Error(err)
			}
		})
	}
	publishers.Wait()
	want(t, dir, map[string]string{"a/b": "one"})
}

func TestDiscardDeletesOnlyStagedObjects(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	stage(t, d, "lost", "one")
	stage(t, d, "kept", "two")
	stage(t, d, "won", "three")
	publish(t, d, "won", "k")
	for range 2 {
		if err := d.Discard(t.Context(), []string{"lost", "won", "missing"}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, dir, map[string]string{"k": "three", ".staged/kept": "two"})
}

func TestASweepFindsObjectsLeftByACrash(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	past := time.Now().Add(-time.Hour)
	age := func(name string) {
		if err := os.Chtimes(filepath.Join(dir, staging, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	// The states in which a crash can leave an object: registered, half-written, staged, published.
	if err := os.WriteFile(filepath.Join(dir, staging, "registered"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, staging, "half"), []byte("ha"), 0o644); err != nil {
		t.Fatal(err)
	}
	stage(t, d, "staged", "one")
	stage(t, d, "published", "two")
	publish(t, d, "published", "k")
	stage(t, d, "with/slash %2F", "three")
	for _, name := range []string{"registered", "half", "staged", "with%2Fslash%20%252F"} {
		age(name)
	}
	stage(t, d, "young", "four")
	d = open(t, dir)
	got, err := d.Staged(t.Context(), time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"half", "registered", "staged", "with/slash %2F"}, got); diff != "" {
		t.Error(diff)
	}
	stage(t, d, "half", "whole")
	if err := d.Discard(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	want(t, dir, map[string]string{"k": "two", ".staged/young": "four"})
}

func TestPathTricksAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "inside")
	d := open(t, dir)
	stage(t, d, "s", "one")
	for _, key := range []string{"", "/etc/passwd", "../x", "a/../../x", `..\x`, ".staged/s", ".claims/x", strings.Repeat("x", 256)} {
		err := d.Publish(t.Context(), record.Blob{Key: key, Staged: "s"})
		if !errors.As(err, new(*blob.InvalidError)) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, staged := range []string{"", "..", strings.Repeat("x", 256)} {
		if err := d.Stage(t.Context(), staged, nil); !errors.As(err, new(*blob.InvalidError)) {
			t.Errorf("%q: %v", staged, err)
		}
	}
	want(t, dir, map[string]string{".staged/s": "one"})
}

func TestASymbolicLinkDoesNotLeaveTheFolder(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	d := open(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	stage(t, d, "s", "one")
	if err := d.Publish(t.Context(), record.Blob{Key: "link/x", Staged: "s"}); err == nil {
		t.Error("published")
	}
	want(t, outside, map[string]string{})
}

func TestAKeyThatConflictsWithAnObjectIsRefusedBeforeItIsStaged(t *testing.T) {
	d := open(t, t.TempDir())
	for _, key := range []string{"a", "x/y/z", "again"} {
		stage(t, d, "s", "one")
		publish(t, d, "s", key)
	}
	for _, key := range []string{"a/b", "a/b/c", "x", "x/y", "x/y/z/1"} {
		if err := d.Check(key); !errors.As(err, new(*blob.InvalidError)) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"a", "again", "b", "x/y/z", "x/y/1", "x/1/2", "ab/c"} {
		if err := d.Check(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestAStagedObjectIsPublishedAfterAConflictingOneIsMovedAway(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	stage(t, d, "first", "one")
	stage(t, d, "second", "two")
	publish(t, d, "first", "a")
	if err := d.Publish(t.Context(), record.Blob{Key: "a/b", Staged: "second"}); err == nil {
		t.Error("published")
	}
	publish(t, d, "first", "a")
	want(t, dir, map[string]string{"a": "one", ".staged/second": "two"})
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	publish(t, d, "second", "a/b")
	want(t, dir, map[string]string{"c": "one", "a/b": "two"})
}
