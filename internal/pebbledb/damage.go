package pebbledb

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// A Damage is a file of a database whose content differs from the synced content.
type Damage struct {
	Path string
	// What describes the damage, for example "was removed".
	What string

	name string
}

func (d Damage) String() string { return d.Path + " " + d.What }

// A DamageError is returned by Open if a database lost synced data. It wraps
// [pebble.ErrCorruption].
type DamageError struct {
	Damage []Damage
	// Final reports whether the database can't be opened without the damaged files.
	Final bool
}

func (e *DamageError) Error() string {
	var all []string
	for _, d := range e.Damage {
		all = append(all, d.String())
	}
	what := "database is damaged: " + strings.Join(all, "; ")
	if e.Final {
		return what + "; restore the data folder from a backup"
	}
	return what + "; acknowledged messages would be missing: " + advice
}

const advice = "restore the data folder from a backup, or start with --accept-loss (AcceptLoss in Go) to go on with what is left"

// Unwrap implements the interface of package errors.
func (e *DamageError) Unwrap() error { return pebble.ErrCorruption }

// verify compares the listed files with the disk.
func (s *synced) verify() ([]Damage, error) {
	var found []Damage
	for _, name := range s.names() {
		want, path := s.files[name], s.fs.PathJoin(s.dir, name)
		what, err := compare(s.fs, path, want)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if what != "" {
			found = append(found, Damage{path, what, name})
		}
	}
	return found, nil
}

// compare returns a description of the damage of a file, or "" if there is none.
func compare(files vfs.FS, path string, want prefix) (string, error) {
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "was removed", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := crc32.New(castagnoli())
	n, err := io.Copy(sum, io.LimitReader(f, want.length))
	switch {
	case err != nil:
		return "", err
	case n < want.length:
		return fmt.Sprintf("was cut: it has %d bytes, and %d were synced", n, want.length), nil
	case sum.Sum32() != want.sum:
		return fmt.Sprintf("was changed somewhere in its first %d bytes", want.length), nil
	}
	return "", nil
}

// check returns the list of a folder, ready to be written, after it has compared it with the
// folder. Damage is an error if lost is nil; otherwise lost is called for each damaged file. A
// database that is opened to be read only is left as it is: its damage is always an error.
func check(files vfs.FS, dir string, readOnly bool, lost func(Damage)) (*synced, error) {
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	s, err := readSynced(files, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnreadable) {
		return withoutList(files, dir, names, err, readOnly, lost)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", files.PathJoin(dir, syncedName), err)
	}
	found, err := s.verify()
	if err != nil {
		return nil, err
	}
	if readOnly {
		if len(found) > 0 {
			return nil, &DamageError{Damage: found}
		}
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if len(found) > 0 {
		if err := s.accept(found, names, lost); err != nil {
			return nil, errors.Join(err, s.file.Close())
		}
	}
	return s, nil
}

// withoutList begins a list. If there is a database already, its list was lost.
func withoutList(files vfs.FS, dir string, names []string, why error, readOnly bool, lost func(Damage)) (*synced, error) {
	exists := slices.ContainsFunc(names, ofDatabase)
	switch {
	case readOnly && !exists:
		return nil, pebble.ErrDBDoesNotExist
	case exists:
		d := Damage{Path: files.PathJoin(dir, syncedName), name: syncedName, What: "was removed: without it, it is unknown whether the logs beside it are complete"}
		if errors.Is(why, errUnreadable) {
			d.What = "is damaged: without it, it is unknown whether the logs beside it are complete"
		}
		if lost == nil || readOnly {
			return nil, &DamageError{Damage: []Damage{d}}
		}
		lost(d)
	}
	return createSynced(files, dir, exists)
}

// accept continues without the damaged files, if that is possible.
func (s *synced) accept(found []Damage, names []string, lost func(Damage)) error {
	final := slices.ContainsFunc(found, func(d Damage) bool { return s.needed(d.name, names) })
	if lost == nil || final {
		return &DamageError{Damage: found, Final: final}
	}
	for i := range found {
		if isMarker(found[i].name) { // it is empty: no data is lost with it
			if err := s.restoreMarker(found[i].Path); err != nil {
				return fmt.Errorf("restore %s: %w", found[i].Path, err)
			}
			found[i].What += ", and was restored: it is empty"
		}
	}
	if err := s.keepFirstLogs(found, lost); err != nil {
		return err
	}
	for _, d := range found {
		if !isMarker(d.name) {
			if err := s.drop(d.name); err != nil {
				return err
			}
		}
		lost(d)
	}
	return nil
}

func (s *synced) restoreMarker(path string) error {
	f, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncFolder(s.fs, s.dir)
}

// keepFirstLogs sets aside the logs after the first damaged one that is needed, and cuts that one
// where it can't be read any more: the later records may depend on the lost ones.
func (s *synced) keepFirstLogs(found []Damage, lost func(Damage)) error {
	var names []string
	for _, d := range found {
		if isLog(d.name) {
			names = append(names, d.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	replayed, some, err := s.firstReplayed(names)
	if err != nil {
		return err
	}
	first, damaged := wal.NumWAL(0), false
	for i := range found {
		number, _, ok := wal.ParseLogFilename(found[i].name)
		switch {
		case !ok:
		case !some || number < replayed:
			found[i].What += "; nothing is lost with it, because the tables contain its records"
		case !damaged || number < first:
			first, damaged = number, true
		}
	}
	if !damaged {
		return nil
	}
	logs, err := wal.Scan(wal.Dir{FS: s.fs, Dirname: s.dir})
	if err != nil {
		return err
	}
	if later := slices.IndexFunc(logs, func(log wal.LogicalLog) bool { return log.Num > first }); later >= 0 {
		if err := s.leaveOut(logs[later:], lost); err != nil {
			return err
		}
	}
	if log, ok := logs.Get(first); ok {
		return s.cutLog(log, lost)
	}
	return nil
}

// needed reports whether a file is the current manifest, which lists the tables with the data.
func (s *synced) needed(name string, names []string) bool {
	current := func(marker string) bool { return isMarker(marker) && strings.HasSuffix(marker, "."+name) }
	return isManifest(name) && (slices.ContainsFunc(names, current) || slices.ContainsFunc(s.names(), current))
}
