package pebbledb

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Copy writes a copy of an open database into a folder that does not exist. The copy has every
// write that was durable before the call, and is durable itself. Tables are hard links if the
// folder is on the same file system. After an error there is no complete copy.
//
// The files are those of the options of [Open].
func Copy(db *pebble.DB, files vfs.FS, dir string) error {
	if files == nil {
		files = vfs.Default
	}
	err := checkpoint(db, dir)
	if err == nil {
		err = listAll(files, dir)
	}
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return nil
}

// checkpoint returns an error where Pebble panics: if the folder of the copy can't be synced.
// Pebble holds no lock then.
func checkpoint(db *pebble.DB, dir string) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			failed, ok := problem.(error)
			if !ok {
				panic(problem)
			}
			err = failed
		}
	}()
	return db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// listAll writes the list of synced files of a copy: all of each file is synced.
func listAll(files vfs.FS, dir string) (err error) {
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	s, err := createSynced(files, dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, name := range names {
		if !tracked(name) {
			continue
		}
		if s.files[name], err = whole(files, files.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return s.opened()
}

// whole returns the prefix that is a whole file.
func whole(files vfs.FS, path string) (prefix, error) {
	f, err := files.Open(path)
	if err != nil {
		return prefix{}, err
	}
	sum := crc32.New(castagnoli())
	n, err := io.Copy(sum, f)
	return prefix{length: n, sum: sum.Sum32()}, errors.Join(err, f.Close())
}
