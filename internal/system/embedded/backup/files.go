package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// finish makes a folder durable and gives it its name.
func finish(part, dir string) error {
	if err := syncTree(part); err != nil {
		return err
	}
	if err := os.Rename(part, dir); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// syncTree syncs the folders of a tree. Its files were synced when they were written, or before
// they were linked.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncFolder(path)
	})
}

func syncFolder(path string) error {
	crash()
	if runtime.GOOS == "windows" {
		return nil // it syncs no folders
	}
	f, err := os.Open(path) //nolint:gosec // a folder that the operator names
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeFile writes a file durably.
func writeFile(path string, content []byte) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// replaceFile writes a file durably in the place of one that may exist. At any moment one of the two
// is there as a whole.
func replaceFile(path string, content []byte) error {
	part := path + unfinished
	if err := remove(part); err != nil {
		return err
	}
	if err := writeFile(part, content); err != nil {
		return err
	}
	crash()
	if err := os.Rename(part, path); err != nil {
		return err
	}
	crash()
	return syncFolder(filepath.Dir(path))
}

// create creates a file that does not exist, for its user only.
func create(path string) (*os.File, error) {
	crash()
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	return os.OpenFile(path, flags, 0o600) //nolint:gosec // in a folder that the operator names
}

// copyStart copies the first bytes of a file durably, and returns how many there are, at most
// length, and their SHA-256.
func copyStart(ctx context.Context, from, to string, length int64) (n int64, sum string, err error) {
	in, err := os.Open(from) //nolint:gosec // a folder that the operator names
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := create(to)
	if err != nil {
		return 0, "", err
	}
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(out, hash), io.LimitReader(reader{ctx, in}, length))
	if err == nil {
		err = out.Sync()
	}
	return n, hex.EncodeToString(hash.Sum(nil)), errors.Join(err, out.Close())
}

// A reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// sumOf returns the length and the SHA-256 of a file.
func sumOf(ctx context.Context, path string) (int64, string, error) {
	f, err := os.Open(path) //nolint:gosec // a folder that the operator names
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	hash := sha256.New()
	n, err := io.Copy(hash, reader{ctx, f})
	return n, hex.EncodeToString(hash.Sum(nil)), err
}

// linkTree links the files of a tree into a new one, or copies them if it can't: those of the
// folder first before all others. It returns how many there are. A file that disappears meanwhile
// is left out. A link is enough: a published object is replaced and never written again, and the
// name of a staged one belongs to one attempt.
func linkTree(ctx context.Context, from, to, first string) (n int, err error) {
	for _, only := range []bool{true, false} {
		err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			rest, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			switch isFirst := rest == first || within(rest, first); {
			case rest == ".":
			case d.IsDir() && isFirst != only:
				return fs.SkipDir
			case isFirst != only:
				return nil
			}
			if d.IsDir() {
				return mkdir(filepath.Join(to, rest))
			}
			linked, err := link(ctx, path, filepath.Join(to, rest))
			n += linked
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// mkdir makes a folder unless it is there.
func mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// link links a file, or copies it if the target is on another file system. It returns how many
// files there are now: 0 if the file has disappeared.
func link(ctx context.Context, from, to string) (int, error) {
	err := os.Link(from, to)
	if err == nil {
		return 1, nil
	}
	if errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	_, _, err = copyStart(ctx, from, to, 1<<62)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return 1, err
}

// copyTree copies a tree into a new folder.
func copyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rest)
		if d.IsDir() {
			return mkdir(target)
		}
		_, _, err = copyStart(ctx, path, target, 1<<62)
		return err
	})
}
