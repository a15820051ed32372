package file

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// errInUse says that another process has the file open as a destination.
var errInUse = errors.New("file is in use by another process")

// An aheadError says that a file has bytes beyond the committed length that this database did not
// leave there by a crash. They may be delivered lines, so they are not cut off.
type aheadError struct {
	Path      string
	Size      int64 // in bytes
	Committed int64 // in bytes
	// Why says how it is known, for example "another data folder has written to it since".
	Why string
}

func (e *aheadError) Error() string {
	return fmt.Sprintf("%s has %d bytes, and this data folder committed %d: %s. The lines after that may have been delivered, so they stay. "+
		"If the data folder is an older copy, put the newest one back; if two data folders have this file, give each a file of its own. Otherwise move the file away to begin "+
		"a new one, or start with --accept-loss (AcceptLoss in Go) to append after its lines", e.Path, e.Size, e.Committed, e.Why)
}

// owners is the kind of the record that holds this database's name as a file's owner; the same name
// is in a small file next to it.
const owners byte = 'a'

// noteEvery is how often the durable length is written beside the file while lines are written.
const noteEvery = time.Second

// signature returns the path of the file that names the owner. It has two lines: the owner's name,
// and a length up to which the owner's database is known to be durable.
//
// The length finds a database that was restored from an older copy, or lost the end of its log: its
// committed length is less. It is written when the database is synced with the first round after a
// start, then at most every noteEvery, and at the end. So it is never more than what a crash leaves
// in the database, and no crash leads to an error.
func (s *Sender) signature() string {
	return filepath.Join(filepath.Dir(s.path), "."+filepath.Base(s.path)+".owner")
}

// own takes a file for which this database has a length, and returns the length. The bytes after it
// must be those that a crash of this database left. If there are none, nothing can be lost, whoever
// the owner is.
func (s *Sender) own(f handle, length int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	why, err := s.disowned(length)
	switch size := info.Size(); {
	case err != nil:
		return 0, err
	case why == "":
		return length, nil
	case size <= length:
		return length, s.sign()
	case !s.options.AcceptLoss:
		return 0, &aheadError{Path: s.path, Size: size, Committed: length, Why: why}
	default:
		s.options.Log.Error("loss accepted: a file keeps lines that its data folder does not know",
			slog.String("path", s.path), slog.Int64("bytes", size), slog.Int64("committed_bytes", length), slog.String("why", why))
	}
	// After a crash at this point, the next start adopts the file.
	if err := s.db.Delete(s.marks.lengthKey(), pebble.Sync); err != nil {
		return 0, err
	}
	return s.adopt(f)
}

// disowned returns why the bytes after the committed length may be delivered lines, or "" if the
// signature shows that they are not.
func (s *Sender) disowned(length int64) (string, error) {
	name, err := s.ownName()
	if err != nil {
		return "", s.unreadable(err)
	}
	content, err := os.ReadFile(s.signature())
	if errors.Is(err, fs.ErrNotExist) {
		return s.signature() + ", which names the data folder that wrote last, was removed", nil
	}
	if err != nil {
		return "", fmt.Errorf("read owner: %w", err)
	}
	owner, rest, _ := strings.Cut(string(content), "\n")
	noted, _, _ := strings.Cut(rest, "\n")
	durable, _ := strconv.ParseInt(noted, 10, 64) // if it is no number, it is not as it was signed
	switch {
	case !bytes.Equal(content, signed(owner, durable)):
		return s.signature() + ", which names the data folder that wrote last, is damaged", nil
	case owner != name:
		return "another data folder has written to it since, as " + s.signature() + " says", nil
	case durable > length:
		return fmt.Sprintf("%d bytes were committed before, as %s says", durable, s.signature()), nil
	}
	return "", nil
}

// sign writes this database's name as the owner, durably and atomically: without a complete
// signature, the end of an interrupted round could not be cut off.
func (s *Sender) sign() error {
	name, err := s.ownName()
	if errors.Is(err, record.ErrCorrupt) { // the file gets a new name in any case
		name, err = s.newName()
	}
	if err != nil {
		return err
	}
	unfinished := s.signature() + ".new"
	f, err := s.options.open(unfinished, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("sign file: %w", err)
	}
	_, err = f.WriteAt(signed(name, s.durable), 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(unfinished, s.signature()) //nolint:gosec // beside the configured file
	}
	if err == nil {
		err = syncFolder(filepath.Dir(s.path))
	}
	if err != nil {
		return fmt.Errorf("sign file: %w", err)
	}
	return nil
}

// signed is the content of a signature. All lengths take the same space, so that another one can be
// written over it.
func signed(name string, durable int64) []byte { return fmt.Appendf(nil, "%s\n%019d\n", name, durable) }

// note writes the committed length, which the caller has synced, over the one of the signature. It
// does not sync the signature: after a power failure an older length is there. If it fails, less is
// known of the lines after it, so this is no error of the caller.
func (s *Sender) note() {
	s.durable = s.length
	err := s.renote()
	if errors.Is(err, fs.ErrNotExist) {
		err = s.sign()
	}
	if err != nil {
		s.options.Log.Error("committed length not written beside a file", slog.String("path", s.path), slog.Any("error", err))
	}
}

func (s *Sender) renote() error {
	name, err := s.ownName()
	if err != nil {
		return err
	}
	f, err := s.options.open(s.signature(), os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(signed(name, s.durable), 0)
	return errors.Join(err, f.Close())
}

// ownName returns the name of this database as an owner of the file. It is created on first use.
func (s *Sender) ownName() (string, error) {
	key := s.marks.prefix(owners)
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return s.newName()
	}
	if err != nil {
		return "", fmt.Errorf("load owner: %w", err)
	}
	defer closer.Close()
	name, err := open(key, value)
	if err != nil {
		return "", fmt.Errorf("read owner: %w", err)
	}
	return string(name), nil
}

func (s *Sender) newName() (string, error) {
	key, name := s.marks.prefix(owners), rand.Text()
	if err := s.db.Set(key, seal(key, []byte(name)), pebble.Sync); err != nil {
		return "", fmt.Errorf("record owner: %w", err)
	}
	return name, nil
}
