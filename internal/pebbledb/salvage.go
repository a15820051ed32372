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

// unfinished is the prefix of the name of a log that is being cut.
const unfinished = "unfinished-"

// salvage makes a database that Pebble refuses readable, as far as possible. The operator has
// accepted the loss. Of the logs it keeps everything before the first damaged record: later records
// may depend on the lost ones.
func (s *synced) salvage(lost func(Damage)) error {
	logs, err := wal.Scan(wal.Dir{FS: s.fs, Dirname: s.dir})
	if err != nil {
		return err
	}
	for i, log := range logs {
		if _, _, err := readLog(log); errors.Is(err, io.EOF) {
			continue
		}
		if err := s.leaveOut(logs[i+1:], lost); err != nil {
			return err
		}
		return s.cutLog(log, lost)
	}
	return nil
}

// leaveOut sets aside the logs after a damaged one, durably. It is called before that log is cut:
// after a crash in between, the log is still damaged, and the next start is refused too.
func (s *synced) leaveOut(logs wal.Logs, lost func(Damage)) error {
	for _, log := range logs {
		_, path := log.SegmentLocation(0)
		name := s.fs.PathBase(path)
		records, _, _ := readLog(log)
		if err := s.drop(name); err != nil {
			return err
		}
		if err := s.fs.Rename(path, s.fs.PathJoin(s.dir, aside+name)); err != nil {
			return fmt.Errorf("set log aside: %w", err)
		}
		lost(Damage{path, fmt.Sprintf("was left out with %d records, because an earlier log is damaged; it was kept as %s", records, aside+name), name})
	}
	return syncFolder(s.fs, s.dir)
}

// cutLog cuts a log before its first damaged record, and keeps a copy of the whole under another
// name. It does nothing if the log can be read to its end.
func (s *synced) cutLog(log wal.LogicalLog, lost func(Damage)) error {
	records, end, why := readLog(log)
	if errors.Is(why, io.EOF) {
		return nil
	}
	_, path := log.SegmentLocation(0)
	name := s.fs.PathBase(path)
	size, err := log.PhysicalSize()
	if err != nil {
		return err
	}
	// the log stays as it is until both copies are on disk
	cut := s.fs.PathJoin(s.dir, unfinished+name)
	err = copyStart(s.fs, path, s.fs.PathJoin(s.dir, aside+name), int64(size)) //nolint:gosec // the size of a file
	if err == nil {
		err = copyStart(s.fs, path, cut, end)
	}
	if err == nil {
		err = syncFolder(s.fs, s.dir)
	}
	if err == nil {
		err = s.drop(name)
	}
	if err == nil {
		err = s.fs.Rename(cut, path)
	}
	if err == nil {
		err = syncFolder(s.fs, s.dir)
	}
	if err != nil {
		return fmt.Errorf("cut %s: %w", path, err)
	}
	lost(Damage{path, fmt.Sprintf("was cut after %d records, to %d of %d bytes, where a record is damaged; it was kept as %s", records, end, size, aside+name), name})
	return nil
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
