package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/delay/pebbledelay"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
)

// maxProblems is how many problems a verification describes.
const maxProblems = 20

// A Verified is the result of [Verify].
type Verified struct {
	// Records counts those that were read, Files the output files, Objects the files of blobs/.
	Records int `json:"records"`
	Files   int `json:"files"`
	Objects int `json:"objects"`
	// Damaged counts damaged records and files; Problems describes the first of them.
	Damaged  int      `json:"damaged"`
	Problems []string `json:"problems"`
}

func (v *Verified) problem(format string, args ...any) {
	if v.Damaged++; len(v.Problems) < maxProblems {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify reads every record of a backup, or of a data folder that no process has open, with all
// checksums. In a backup it also compares the output files with their checksums. It writes nothing.
// Damage is no error, but part of the result. Progress is called with the number of records so far,
// from time to time.
func Verify(ctx context.Context, dir string, progress func(records int)) (Verified, error) {
	v := Verified{Problems: []string{}}
	data := dir
	switch info, err := Read(dir); {
	case err == nil:
		data = filepath.Join(dir, dataName)
		if err := v.files(ctx, dir, info); err != nil {
			return v, fmt.Errorf("verify %s: %w", dir, err)
		}
	case !errors.Is(err, errNoBackup):
		v.problem("%v", err)
		data = filepath.Join(dir, dataName)
	}
	if _, err := os.Stat(filepath.Join(data, databaseName)); err != nil {
		return v, fmt.Errorf("verify: %s is neither a backup nor a data folder: there is no database in it", dir)
	}
	if err := v.database(ctx, filepath.Join(data, databaseName), progress); err != nil {
		return v, fmt.Errorf("verify %s: %w", dir, err)
	}
	return v, nil
}

// files compares the parts of a backup beside the database with its description.
func (v *Verified) files(ctx context.Context, dir string, info Info) error {
	for _, f := range info.Files {
		v.Files++
		n, sum, err := sumOf(ctx, filepath.Join(dir, f.Copy))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			v.problem("%v", err)
		case n != f.Bytes || sum != f.Sum:
			v.problem("%s is not as it was copied: it has %d bytes of %d", f.Copy, n, f.Bytes)
		}
	}
	if info.Format > 1 {
		want, err := info.origin().text()
		if err != nil {
			return err
		}
		path, written := filepath.Join(dir, dataName, originName), sha256.Sum256(want)
		if _, sum, err := sumOf(ctx, path); err != nil || sum != hex.EncodeToString(written[:]) {
			v.problem("%s is not as it was written", path)
		}
	}
	err := filepath.WalkDir(filepath.Join(dir, dataName, blobsName), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			v.Objects++
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if v.Objects != info.Objects {
		v.problem("%d objects are there, and %d were copied", v.Objects, info.Objects)
	}
	return err
}

// database reads all records.
func (v *Verified) database(ctx context.Context, dir string, progress func(records int)) (err error) {
	var damage []string
	listener := &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) { damage = append(damage, fmt.Sprintf("%s: %v", i.Path, i.Details)) }}
	db, err := pebbledb.Open(dir, &pebble.Options{FS: readable{vfs.Default}, ReadOnly: true, EventListener: listener})
	switch {
	case errors.Is(err, pebbledb.ErrLocked):
		return fmt.Errorf("%w; stop it, or make a backup and verify that", err)
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		v.problem("%v", err)
		return nil
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := db.NewIterWithContext(ctx, nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, it.Close())
		}
		if v.Records++; v.Records%10_000 == 0 {
			progress(v.Records)
		}
		value, err := it.ValueAndErr()
		if err == nil {
			err = checkRecord(it.Key(), value)
		}
		if err != nil {
			v.problem("record %q: %v", it.Key(), err)
		}
	}
	if err := it.Close(); err != nil && len(damage) == 0 { // otherwise it is the damage
		v.problem("%v", err)
	}
	for _, d := range damage {
		v.problem("%s", d)
	}
	return nil
}

// readable is a file system on which a folder can be locked without being written: on a read-only
// one, no process can have the folder open to write.
type readable struct{ vfs.FS }

// Lock implements [vfs.FS].
func (r readable) Lock(name string) (io.Closer, error) {
	lock, err := r.FS.Lock(name)
	if errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), nil
	}
	return lock, err
}

// Unwrap implements [vfs.FS].
func (r readable) Unwrap() vfs.FS { return r.FS }

// checkRecord returns an error if a record can't be read by the part that owns it.
func checkRecord(key, value []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("an empty key: %w", record.ErrCorrupt)
	}
	switch key[0] {
	case pebbledb.Groups, pebbledb.Helds, pebbledb.Chunks, pebbledb.Tokens:
		return pebblestore.CheckRecord(key, value)
	case pebbledb.Queues:
		return pebblequeue.CheckRecord(key, value)
	case pebbledb.Delays:
		return pebbledelay.CheckRecord(key, value)
	case pebbledb.Files:
		return file.CheckRecord(key, value)
	}
	return fmt.Errorf("no part of the system has such records: %w", record.ErrCorrupt)
}
