package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// ErrInUse says that another process has the file open as a destination.
var ErrInUse = errors.New("file is in use by another process")

// A ForeignError says that another data folder has written to the file since this one did. To
// continue would truncate its lines.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string {
	return e.Path + " was written by another data folder since: give each folder a file of its own, or move the file away to begin a new one"
}

// owners is the kind of the record that holds this database's name as a file's owner; the same name
// is in a small file next to it.
const owners byte = 'a'

// signature returns the path of the file that names the owner.
func (s *Sender) signature() string {
	return filepath.Join(filepath.Dir(s.path), "."+filepath.Base(s.path)+".owner")
}

// own checks that this database was the last to open a file, if it has a length for it.
func (s *Sender) own() error {
	name, err := s.ownName()
	if err != nil {
		return s.unreadable(err)
	}
	content, err := os.ReadFile(s.signature())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read owner: %w", err)
	}
	switch strings.TrimSpace(string(content)) {
	case name:
		return nil
	case "":
		// The signature was removed or emptied, or not copied with the file. A crash can't do that
		// to another folder's signature: it is complete before it gets its name, and on disk before
		// that folder's first line, so only our lines are at risk. If somebody deletes another
		// folder's signature, its lines can't be distinguished from ours.
		return s.sign()
	}
	return &ForeignError{Path: s.path}
}

// sign writes this database's name as the owner, durably and atomically: an incomplete signature
// would be foreign to every database.
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
	_, err = f.WriteAt([]byte(name+"\n"), 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(unfinished, s.signature())
	}
	if err == nil {
		err = syncFolder(filepath.Dir(s.path))
	}
	if err != nil {
		return fmt.Errorf("sign file: %w", err)
	}
	return nil
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
