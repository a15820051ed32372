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
)

// ErrInUse says that another process has the file open as a destination.
var ErrInUse = errors.New("file is in use by another process")

// A ForeignError says that another data folder has written to the file since this one did. To go on would cut its lines off.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string {
	return e.Path + " was written by another data folder since: give each folder a file of its own, or move the file away to begin a new one"
}

// owners is the kind of record that names this database as a file's owner; the same name is in a small file beside it.
const owners byte = 'a'

// signature is the path of the file that names the owner.
func (s *Sender) signature() string {
	return filepath.Join(filepath.Dir(s.path), "."+filepath.Base(s.path)+".owner")
}

// own makes sure that this database was the last to open the file, if it was written by it before, and signs it.
func (s *Sender) own(known bool) error {
	name, err := s.ownName()
	if err != nil {
		return err
	}
	signed, err := os.ReadFile(s.signature())
	switch {
	case err == nil && strings.TrimSpace(string(signed)) == name:
		return nil
	case err == nil && known:
		return &ForeignError{Path: s.path}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read owner: %w", err)
	}
	if err := os.WriteFile(s.signature(), []byte(name+"\n"), 0o644); err != nil { //nolint:gosec // a name, not a secret
		return fmt.Errorf("sign file: %w", err)
	}
	return nil
}

// ownName is the name of this database as an owner of the file, made when it is first asked for.
func (s *Sender) ownName() (string, error) {
	key := s.marks.prefix(owners)
	value, closer, err := s.db.Get(key)
	if err == nil {
		defer closer.Close()
		name, err := open(key, value)
		if err != nil {
			return "", fmt.Errorf("read owner: %w", err)
		}
		return string(name), nil
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return "", fmt.Errorf("load owner: %w", err)
	}
	name := rand.Text()
	if err := s.db.Set(key, seal(key, []byte(name)), pebble.Sync); err != nil {
		return "", fmt.Errorf("record owner: %w", err)
	}
	return name, nil
}
