package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// restoredName is the file of a data folder that says that it was restored. [Check] reads it.
const restoredName = "restored.json"

// A restored is the content of that file.
type restored struct {
	// At is when it was restored, in whole seconds.
	At time.Time `json:"at"`
}

// Restore copies a backup to a data folder that is empty or does not exist, and its output files to
// where they were; those that were in the data folder are put into the new one. It changes no file
// that exists: an output file that has other content is an error. The backup stays as it is. Until
// the data folder is complete, the folder ".unfinished" is in it, and it can't be opened. After an
// error, the same call continues.
//
// The time is the present one, in whole seconds. The folder can be opened only with a configuration
// that lists a restore at this time or later: without it, new effects would get identities that
// receivers know already.
func Restore(ctx context.Context, dir, dataDir string, now time.Time) (Info, time.Time, error) {
	now = now.UTC().Truncate(time.Second)
	info, err := restore(ctx, dir, dataDir, now)
	if err != nil {
		return Info{}, time.Time{}, fmt.Errorf("restore %s: %w", dir, err)
	}
	return info, now, nil
}

func restore(ctx context.Context, dir, dataDir string, now time.Time) (Info, error) {
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
	text, err := json.Marshal(restored{At: now})
	if err != nil {
		return info, err
	}
	if err := writeFile(filepath.Join(part, restoredName), append(text, '\n')); err != nil {
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

// moveUp moves the files of a folder to the folder above, durably, and removes the empty one last.
func moveUp(part string) error {
	files, err := os.ReadDir(part)
	if err == nil {
		err = syncTree(part)
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(part)
	for _, f := range files {
		if err := os.Rename(filepath.Join(part, f.Name()), filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	if err := syncFolder(dir); err != nil {
		return err
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

// An UnlistedError is the error for a restored data folder whose restore is not in the
// configuration.
type UnlistedError struct {
	Dir string
	// At is when the folder was restored.
	At time.Time
}

func (e *UnlistedError) Error() string {
	return fmt.Sprintf("data folder %s was restored from a backup: add %s to the list restores of the configuration; without it, receivers would drop new effects as duplicates", e.Dir, e.At.Format(time.RFC3339))
}

// Check returns an [*UnlistedError] if a data folder was restored by [Restore], and no restore at
// this time or later is listed. It also returns an error if a restore was interrupted.
func Check(dataDir string, restores record.Restores) error {
	if _, err := os.Lstat(filepath.Join(dataDir, unfinished)); err == nil {
		return fmt.Errorf("the restore of data folder %s was interrupted: empty it, and restore it again", dataDir)
	}
	text, err := os.ReadFile(filepath.Join(dataDir, restoredName)) //nolint:gosec // the data folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r restored
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return fmt.Errorf("read %s of data folder %s: %w", restoredName, dataDir, err)
	}
	if n := len(restores); n > 0 && !restores[n-1].Before(r.At) {
		return nil
	}
	return &UnlistedError{Dir: dataDir, At: r.At}
}
