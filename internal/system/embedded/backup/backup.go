// Package backup copies data folders of the embedded system, also while it runs, restores them, and
// reads every record of one.
//
// # The folder of a backup
//
//	backup.json   its time and its contents
//	data/         the data folder, with a file that says that it is a copy
//	files/        the files of file destinations that are outside of the data folder
//
// All parts fit each other. The database is copied first, at one moment. An output file is copied
// up to the length that this database has committed: its bytes up to there never change. Objects
// are copied last, the staged ones before the published ones: an object that is published meanwhile
// is in the copy under at least one of its names, and publishing it again is harmless.
//
// A backup that was not finished has another name, see [Write].
package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/blob"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// The names in a backup.
const (
	infoName   = "backup.json"
	dataName   = "data"
	filesName  = "files"
	unfinished = ".unfinished"
)

// The names in a data folder.
const (
	databaseName = "db"
	blobsName    = "blobs"
)

// format is the format of backups. In those of format 1, the data folder does not say that it is a
// copy.
const format = 2

// An Info describes a backup. It is the content of backup.json.
type Info struct {
	Format int `json:"format"`
	// At is when the database was copied, or a moment before it.
	At time.Time `json:"at"`
	// DataDir is the absolute path of the data folder.
	DataDir string `json:"data_dir"`
	// Restores are those that the data folder had.
	Restores record.Restores `json:"restores,omitempty"`
	// Files are the output files.
	Files []File `json:"files"`
	// Objects counts the files in blobs/.
	Objects int `json:"objects"`
	// Unknown counts output files of destinations that are not configured: they are not in it.
	Unknown int `json:"unknown_files,omitempty"`
	// Missing counts output files that were moved away, and not begun again before the backup.
	Missing int `json:"missing_files,omitempty"`
}

// origin reads the mark in the data folder of a backup.
func (i Info) origin() origin { return origin{Backup: i.At, Restores: i.Restores} }

// A File is an output file in a backup.
type File struct {
	// Path is its absolute path, at which it is restored.
	Path string `json:"path"`
	// Copy is its path in the backup.
	Copy string `json:"copy"`
	// Bytes is its length, and Sum its SHA-256.
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sha256"`
	// Mode is its permissions. The copy is for its owner only.
	Mode fs.FileMode `json:"mode"`
}

// A Source is the open data folder that is copied.
type Source struct {
	DB *pebble.DB
	// DataDir is its path.
	DataDir string
	// Files are the absolute paths of its output files.
	Files []string
	// Now defaults to time.Now.
	Now func() time.Time
}

// Write makes a backup in a folder that does not exist, which may not be in the data folder. Until
// it is complete, the folder's name ends in ".unfinished"; after an error it is removed.
func Write(ctx context.Context, s Source, dir string) (Info, error) {
	info, err := write(ctx, s, dir)
	if err != nil {
		return Info{}, fmt.Errorf("back up to %s: %w", dir, err)
	}
	return info, nil
}

func write(ctx context.Context, s Source, dir string) (info Info, err error) {
	if s.Now == nil {
		s.Now = time.Now
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return info, err
	}
	if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
		return info, err
	}
	if inside, err := leadsInto(dir, s.DataDir); err != nil || inside {
		return info, cmp.Or(err, errors.New("this is in the data folder: name a folder outside of it"))
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return info, errors.Join(err, errors.New("it exists already: name a folder that does not exist"))
	}
	part := dir + unfinished
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return info, err
	}
	if err := os.Mkdir(part, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s exists: another backup is being made there, or was interrupted; in that case remove it", part)
		}
		return info, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if info, err = s.fill(ctx, part); err != nil {
		return info, err
	}
	return info, finish(part, dir)
}

// leadsInto reports whether a path is a folder or in it, also through symbolic links. A tree would
// be copied into its own copy there.
func leadsInto(path, folder string) (bool, error) {
	path, err := resolved(path)
	if err != nil {
		return false, err
	}
	folder, err = resolved(folder)
	return err == nil && within(path, folder), err
}

// resolved returns an absolute path without symbolic links. The end of the path need not exist.
func resolved(path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
		found, err = resolved(parent)
		found = filepath.Join(found, filepath.Base(path))
	}
	return found, err
}

// within reports whether a path is a folder or in it.
func within(path, folder string) bool {
	rest, err := filepath.Rel(folder, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// fill writes all parts into a folder.
func (s Source) fill(ctx context.Context, dir string) (Info, error) {
	before := make([]fs.FileInfo, len(s.Files))
	for i, path := range s.Files {
		before[i], _ = os.Stat(path) // nil if it is not there
	}
	info := Info{Format: format, At: s.Now().UTC(), DataDir: s.DataDir, Files: []File{}}
	data := filepath.Join(dir, dataName)
	if err := os.Mkdir(data, 0o700); err != nil {
		return info, err
	}
	// It is the first file, so that no part of the copy can be opened without it.
	known, err := readOrigin(s.DataDir)
	if err == nil {
		info.Restores = known.Restores
		err = info.origin().write(data)
	}
	if err != nil {
		return info, err
	}
	database := filepath.Join(data, databaseName)
	if err := pebbledb.Copy(s.DB, nil, database); err != nil {
		return info, err
	}
	if err := os.Chmod(database, 0o700); err != nil { //nolint:gosec // a folder
		return info, err
	}
	lengths, unknown, err := committed(database, s.Files)
	if err != nil {
		return info, err
	}
	info.Unknown = unknown
	for i, path := range s.Files {
		if lengths[i] < 0 {
			continue
		}
		f, err := s.copyFile(ctx, dir, path, lengths[i], len(info.Files))
		after, gone := os.Stat(path)
		switch {
		case before[i] == nil && errors.Is(gone, fs.ErrNotExist):
			info.Missing++
			continue
		case err == nil && !os.SameFile(before[i], after): // the length may be that of the other file
			err = fmt.Errorf("%s was moved away during the backup: make another one", path)
		}
		if err != nil {
			return info, err
		}
		f.Mode = after.Mode().Perm()
		info.Files = append(info.Files, f)
	}
	from, to := filepath.Join(s.DataDir, blobsName), filepath.Join(data, blobsName)
	if info.Objects, err = linkTree(ctx, from, to, blob.Staged); err != nil {
		return info, err
	}
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return info, err
	}
	return info, writeFile(filepath.Join(dir, infoName), append(text, '\n'))
}

// committed is [file.Committed] for a database that is not open.
func committed(database string, paths []string) (lengths []int64, others int, err error) {
	db, err := pebbledb.Open(database, &pebble.Options{ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return file.Committed(db, paths)
}

// copyFile copies the committed part of an output file. One that is in the data folder keeps its
// place.
func (s Source) copyFile(ctx context.Context, dir, path string, length int64, number int) (File, error) {
	f := File{Path: path, Copy: filepath.Join(filesName, fmt.Sprintf("%d-%s", number+1, filepath.Base(path))), Bytes: length}
	if within(path, s.DataDir) {
		rest, err := filepath.Rel(s.DataDir, path)
		if err != nil {
			return f, err
		}
		f.Copy = filepath.Join(dataName, rest)
	}
	target := filepath.Join(dir, f.Copy)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return f, err
	}
	n, sum, err := copyStart(ctx, path, target, length)
	if err == nil && n < length {
		err = fmt.Errorf("%s has %d bytes, and %d were committed: it was moved or cut meanwhile", path, n, length)
	}
	f.Sum = sum
	return f, err
}

// errNoBackup is the error for another folder.
var errNoBackup = errors.New("is not a backup")

// Read returns the description of a backup.
func Read(dir string) (Info, error) {
	var info Info
	text, err := os.ReadFile(filepath.Join(dir, infoName)) //nolint:gosec // named by the operator
	if errors.Is(err, fs.ErrNotExist) {
		return info, fmt.Errorf("%s %w: there is no %s in it", dir, errNoBackup, infoName)
	}
	if err != nil {
		return info, fmt.Errorf("read backup: %w", err)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return info, fmt.Errorf("read backup: %s: %w", infoName, err)
	}
	if info.Format < 1 || info.Format > format {
		return info, fmt.Errorf("read backup: it has format %d, and this program reads up to %d", info.Format, format)
	}
	for _, f := range info.Files {
		if !filepath.IsLocal(f.Copy) || !filepath.IsAbs(f.Path) {
			return info, fmt.Errorf("read backup: %s names the file %q, %q", infoName, f.Path, f.Copy)
		}
	}
	return info, nil
}
