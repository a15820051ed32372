package pebbledb

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// aside is the prefix of the names under which damaged files are kept. Pebble ignores such names.
const aside = "damaged-"

// salvage makes a database that Pebble refuses readable, as far as possible. The operator has
// accepted the loss. Of the logs it keeps everything before the first damaged record: later records
// may depend on the lost ones.
func salvage(fs vfs.FS, dir string, lost func(Damage)) error {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return err
	}
	for i, log := range logs {
		damaged, err := cutLog(fs, dir, log, lost)
		if err != nil {
			return err
		}
		if damaged {
			return errors.Join(leaveOut(fs, dir, logs[i+1:], lost), syncFolder(fs, dir))
		}
	}
	return syncFolder(fs, dir)
}

func setAside(fs vfs.FS, dir, name string) error {
	if err := fs.Rename(fs.PathJoin(dir, name), fs.PathJoin(dir, aside+name)); err != nil {
		return fmt.Errorf("move damaged file aside: %w", err)
	}
	return nil
}

// leaveOut moves the logs behind a damaged one aside.
func leaveOut(fs vfs.FS, dir string, logs wal.Logs, lost func(Damage)) error {
	for _, log := range logs {
		_, path := log.SegmentLocation(0)
		name := fs.PathBase(path)
		records, _, _ := readLog(log)
		lost(Damage{path, fmt.Sprintf("was left out with %d records, because an earlier log is damaged; it was kept as %s", records, aside+name), name})
		if err := setAside(fs, dir, name); err != nil {
			return err
		}
	}
	return nil
}

// cutLog keeps the records of a log before the first damaged one, and the whole log under another
// name. It reports whether a record was damaged.
func cutLog(fs vfs.FS, dir string, log wal.LogicalLog, lost func(Damage)) (bool, error) {
	records, end, why := readLog(log)
	if errors.Is(why, io.EOF) {
		return false, nil
	}
	_, path := log.SegmentLocation(0)
	name := fs.PathBase(path)
	size, err := log.PhysicalSize()
	if err != nil {
		return false, err
	}
	if err := setAside(fs, dir, name); err != nil {
		return false, err
	}
	if err := copyStart(fs, fs.PathJoin(dir, aside+name), path, end); err != nil {
		return false, fmt.Errorf("cut %s: %w", path, err)
	}
	lost(Damage{path, fmt.Sprintf("was cut after %d records, to %d of %d bytes, where a record is damaged; it was kept as %s", records, end, size, aside+name), name})
	return true, nil
}

// readLog returns how many records of a log can be read, and where the last of them ends. The error
// is io.EOF if the log ends there.
func readLog(log wal.LogicalLog) (records int, end int64, err error) {
	r := log.OpenForRead()
	defer r.Close()
	for {
		content, at, err := r.NextRecord()
		if err == nil {
			_, err = io.Copy(io.Discard, content)
		}
		if err != nil {
			return records, at.Physical, err
		}
		records++
	}
}

func copyStart(fs vfs.FS, from, to string, length int64) error {
	in, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, length))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
