// Package dirblob stores staged and published objects in a local folder.
//
// A staged object is a file in the folder ".staged", under a name that is unique to the attempt.
// The file's directory entry is its registration: it exists before the first byte of the content,
// so a sweep that lists the folder finds the file after a crash at any moment. Publishing renames
// the file to its key in one step; a reader sees the whole object or nothing, and the staged name
// disappears at the same moment. Contents are synced before Stage returns, names before Stage and
// Publish return, so that they survive a power failure before a commit refers to them.
//
// # Errors
//
// Staging or publishing again is harmless. If a key or a name breaks the rules, the error is a
// [*blob.InvalidError], and nothing has changed.
//
// # Limits
//
// A key can't be both an object and a folder: if "a" is published, Check refuses "a/b", and vice
// versa. If both are staged before either is published, the second can't be published until an
// operator moves the first one away. On file systems that fold case or normalise Unicode, keys that
// differ only in that are the same. Keys are at most 1024 bytes, their parts 255.
package dirblob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/effectively-once/once/internal/blob"
	"github.com/effectively-once/once/internal/record"
)

// staging is the folder of staged objects.
const staging = blob.Staged

// A Dir is a folder of objects. It never accesses files outside the folder, not even through
// symbolic links.
type Dir struct{ root *os.Root }

var _ record.Blobs = (*Dir)(nil)

// Open opens or creates a folder.
func Open(dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for readers of the objects
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	d := &Dir{root: root}
	if err := d.makeFolders(staging); err != nil {
		return nil, errors.Join(fmt.Errorf("open blob folder: %w", err), root.Close())
	}
	return d, nil
}

// Close closes the folder.
func (d *Dir) Close() error { return d.root.Close() }

// Check is [blob.Check]. It also refuses names that the operating system reserves, and keys that
// conflict with a published object or a folder.
func (d *Dir) Check(key string) error {
	if err := valid(key); err != nil {
		return err
	}
	return d.free(key)
}

func valid(key string) error {
	if err := blob.Check(key); err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.FromSlash(key)) {
		return &blob.InvalidError{Rule: "must be a path that the operating system allows"}
	}
	return nil
}

// free returns an error if a key conflicts with an existing object or folder. If that is detected
// before the commit, only this message fails; afterwards, it would block its group.
func (d *Dir) free(key string) error {
	for i := range len(key) {
		if key[i] != '/' {
			continue
		}
		switch info, err := d.root.Stat(key[:i]); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("check blob key: %w", err)
		case !info.IsDir():
			return &blob.InvalidError{Rule: "must not need a folder where an object is published"}
		}
	}
	info, err := d.root.Lstat(key)
	if err == nil && info.IsDir() {
		return &blob.InvalidError{Rule: "must not be that of a folder of objects"}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("check blob key: %w", err)
	}
	return nil
}

// stagedPath returns the path of a staged object.
func stagedPath(staged string) (string, error) {
	part, err := blob.Escape(staged)
	return staging + "/" + part, err
}

// Stage writes an object under an attempt-unique name, invisible to readers of keys. Staging a name
// again replaces its content.
func (d *Dir) Stage(ctx context.Context, staged string, body []byte) error {
	name, err := stagedPath(staged)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stage blob: %w", err)
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("stage blob: %w", err)
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.sync(staging)
	}
	if err != nil {
		return fmt.Errorf("stage blob: %w", err)
	}
	return nil
}

// Publish makes a staged object visible under its key, replacing an older object there. If nothing
// is staged under the name, it was published before, and Publish only makes sure that this is
// durable.
func (d *Dir) Publish(ctx context.Context, b record.Blob) error {
	if err := valid(b.Key); err != nil {
		return err
	}
	name, err := stagedPath(b.Staged)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish blob: %w", err)
	}
	if err := d.publish(name, b.Key); err != nil {
		return fmt.Errorf("publish blob: %w", err)
	}
	return nil
}

func (d *Dir) publish(name, key string) error {
	if _, err := d.root.Lstat(name); err == nil {
		if err := d.makeFolders(path.Dir(key)); err != nil {
			return err
		}
		if err := d.root.Rename(name, key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // another publisher may have renamed it in between
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Sync the new name first: if only this one is durable, the object is there twice. In the other
	// order it could be lost.
	if err := d.sync(path.Dir(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.sync(staging)
}

// Discard deletes staged objects; missing ones are ignored.
func (d *Dir) Discard(ctx context.Context, staged []string) error {
	var errs []error
	for _, s := range staged {
		name, err := stagedPath(s)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = d.root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("discard blob: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Staged lists the objects that were staged before a time and are neither published nor discarded,
// including incomplete ones.
func (d *Dir) Staged(ctx context.Context, before time.Time) ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), staging)
	if err != nil {
		return nil, fmt.Errorf("list staged blobs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list staged blobs: %w", err)
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // published or discarded in the meantime
		}
		if err != nil {
			return nil, fmt.Errorf("list staged blobs: %w", err)
		}
		if name, ok := blob.Unescape(e.Name()); ok && info.ModTime().Before(before) {
			names = append(names, name)
		}
	}
	return names, nil
}

// makeFolders creates a folder and its parents, durably.
func (d *Dir) makeFolders(name string) error {
	if name == "." {
		return nil
	}
	if info, err := d.root.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	parent := path.Dir(name)
	if err := d.makeFolders(parent); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.sync(parent)
}

func (d *Dir) sync(folder string) error {
	if runtime.GOOS == "windows" {
		return nil // it syncs no folders
	}
	f, err := d.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
