package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pebbledb"
)

// Restore copies a backup to a data folder that is empty or does not exist, and its output files to
// where they were; those that were in the data folder are put into the new one. It changes no file
// that exists: an output file that has other content is an error. The backup stays as it is. Until
// the data folder is complete, the folder ".unfinished" is in it, and it can't be opened. After an
// error, the same call continues. The first start of the folder stamps it, see [Begin].
func Restore(ctx context.Context, dir, dataDir string, now func() time.Time) (Info, error) {
	info, err := restore(ctx, dir, dataDir, now)
	if err != nil {
		return Info{}, fmt.Errorf("restore %s: %w", dir, err)
	}
	return info, nil
}

func restore(ctx context.Context, dir, dataDir string, now func() time.Time) (Info, error) {
	info, err := Read(dir)
	if err != nil {
		return info, err
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return info, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return info, err
	}
	if inside, err := leadsInto(dataDir, dir); err != nil || inside {
		return info, cmp.Or(err, errors.New("the data folder is in the backup: name a folder outside of it"))
	}
	if err := vacant(dataDir); err != nil {
		return info, err
	}
	if now().Before(info.At) {
		return info, fmt.Errorf("the clock is behind the backup, which was made at %s: correct the clock", info.At.Format(time.RFC3339))
	}
	var errs []error
	for _, f := range info.Files {
		if !f.inData() {
			errs = append(errs, f.fits(ctx))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return info, err
	}
	renamed := map[string]string{}
	for i, f := range info.Files {
		if rest, err := filepath.Rel(dataName, f.Copy); f.inData() && err == nil {
			info.Files[i].Path = filepath.Join(dataDir, rest)
			renamed[f.Path] = info.Files[i].Path
			continue
		}
		if err := f.putBack(ctx, dir); err != nil {
			return info, err
		}
	}
	part := filepath.Join(dataDir, unfinished)
	if err := os.RemoveAll(part); err != nil {
		return info, err
	}
	if err := os.MkdirAll(part, 0o700); err != nil {
		return info, err
	}
	if err := copyTree(ctx, filepath.Join(dir, dataName), part); err != nil {
		return info, err
	}
	if err := rename(filepath.Join(part, databaseName), renamed); err != nil {
		return info, err
	}
	o := info.origin()
	o.Restored = now().UTC()
	if err := o.write(part); err != nil {
		return info, err
	}
	return info, moveUp(part)
}

// rename gives the records of output files their new paths, so that no line is written a second
// time in a file that is in another place now.
func rename(database string, paths map[string]string) (err error) {
	maps.DeleteFunc(paths, func(from, to string) bool { return from == to })
	if len(paths) == 0 {
		return nil
	}
	db, err := pebbledb.Open(database, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for from, to := range paths {
		if err := file.Rename(db, from, to); err != nil {
			return err
		}
	}
	return nil
}

// moveUp moves the files of a folder to the folder above, durably, and removes the empty one last. The
// file with the restores is moved first: without it, the database could be opened as if it were no
// copy.
func moveUp(part string) error {
	files, err := os.ReadDir(part)
	if err == nil {
		err = syncTree(part)
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(part)
	slices.SortStableFunc(files, func(a, _ fs.DirEntry) int {
		if a.Name() == originName {
			return -1
		}
		return 0
	})
	for _, f := range files {
		if err := os.Rename(filepath.Join(part, f.Name()), filepath.Join(dir, f.Name())); err != nil {
			return err
		}
		if err := syncFolder(dir); err != nil {
			return err
		}
	}
	if err := os.Remove(part); err != nil {
		return err
	}
	return errors.Join(syncFolder(dir), syncFolder(filepath.Dir(dir)))
}

// vacant returns an error if a folder has files, besides those of an interrupted restore.
func vacant(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		if f.Name() != unfinished {
			return fmt.Errorf("%s is not empty: move what is in it away, or name another data folder", dir)
		}
	}
	return nil
}

// inData reports whether the file is in the data folder.
func (f File) inData() bool { return within(f.Copy, dataName) }

// fits returns an error if there is another file in the file's place.
func (f File) fits(ctx context.Context) error {
	n, sum, err := sumOf(ctx, f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case n != f.Bytes || sum != f.Sum:
		return fmt.Errorf("%s exists and is not as it was copied: move it away", f.Path)
	}
	return nil
}

// putBack copies the file to its place, unless it is there.
func (f File) putBack(ctx context.Context, dir string) error {
	if _, err := os.Stat(f.Path); err == nil {
		return nil
	}
	part := f.Path + unfinished
	if err := os.MkdirAll(filepath.Dir(part), 0o755); err != nil { //nolint:gosec // for readers of the file
		return err
	}
	if err := remove(part); err != nil {
		return err
	}
	n, sum, err := copyStart(ctx, filepath.Join(dir, f.Copy), part, 1<<62)
	if err == nil && (n != f.Bytes || sum != f.Sum) {
		err = fmt.Errorf("%s is damaged", f.Copy)
	}
	if err == nil {
		err = os.Chmod(part, cmp.Or(f.Mode.Perm(), 0o600))
	}
	if err == nil {
		err = os.Rename(part, f.Path)
	}
	if err != nil {
		return errors.Join(err, remove(part))
	}
	return syncFolder(filepath.Dir(f.Path))
}

// remove removes a file or an empty folder unless it is gone.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
