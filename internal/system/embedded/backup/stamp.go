package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// originName is the file of a data folder with its restores. A folder that was never restored has
// none.
const originName = "restored.json"

// unknownToOlder is in the place of a time that versions before stamps read: they refuse the folder,
// because they would give numbers that receivers know.
const unknownToOlder = "stamped by a newer version of once"

// An origin is the content of that file.
type origin struct {
	// At is the only field that versions before stamps read: the time of the last restore if all
	// are listed in the configuration.
	At string `json:"at"`
	// Backup is when the copy was made of which the folder is one. Until Restored is set too, it
	// can't be opened.
	Backup time.Time `json:"backup,omitzero"`
	// Restored is when the copy was put back. The next start adds a stamp to Restores.
	Restored time.Time `json:"restored,omitzero"`
	// Restores are the stamps, and the restores that a configuration has listed at a start.
	Restores record.Restores `json:"restores,omitempty"`
}

func readOrigin(dir string) (o origin, err error) {
	text, err := os.ReadFile(filepath.Join(dir, originName)) //nolint:gosec // the data folder
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return o, fmt.Errorf("read %s of data folder %s: %w", originName, dir, err)
	}
	return o, nil
}

// write replaces the file durably.
func (o origin) write(dir string) error {
	text, err := o.text()
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, originName), text)
}

func (o origin) text() ([]byte, error) {
	o.At = unknownToOlder
	if n := len(o.Restores); n > 0 && o.Backup.IsZero() && o.Restored.IsZero() && !o.Restores.Stamped() {
		o.At = o.Restores.Last().Format(time.RFC3339Nano)
	}
	text, err := json.Marshal(o)
	return append(text, '\n'), err
}

// unlisted reports whether a version before stamps restored the folder, and the configuration does
// not list that restore.
func (o origin) unlisted(listed []time.Time) bool {
	at, err := time.Parse(time.RFC3339, o.At)
	return err == nil && len(o.Restores) == 0 && o.Restored.IsZero() && record.Listed(listed).Last().Before(at)
}

// An UnstampedError is the error for a data folder that is a copy and was not put back by [Restore]
// or [Stamp]: new effects would get identities that receivers know already.
type UnstampedError struct{ Dir string }

func (e *UnstampedError) Error() string {
	return fmt.Sprintf("data folder %s was put back to an older copy: receivers would drop its new effects as duplicates; run once restore --stamp %[1]s, and start again", e.Dir)
}

// Check returns an [*UnstampedError] if a data folder is a copy that nobody has put back with
// [Restore] or [Stamp]. It also returns an error if a restore was interrupted. The times are those
// that the configuration lists.
func Check(dataDir string, listed []time.Time) error {
	if err := finished(dataDir); err != nil {
		return err
	}
	o, err := readOrigin(dataDir)
	if err == nil && (o.unlisted(listed) || !o.Backup.IsZero() && o.Restored.IsZero()) {
		err = &UnstampedError{dataDir}
	}
	return err
}

func finished(dataDir string) error {
	if _, err := os.Lstat(filepath.Join(dataDir, unfinished)); err == nil {
		return fmt.Errorf("the restore of data folder %s was interrupted: empty it, and restore it again", dataDir)
	}
	return nil
}

// Recorded returns the restores of a data folder, with those that the configuration lists.
func Recorded(dataDir string, listed []time.Time) (record.Restores, error) {
	o, err := readOrigin(dataDir)
	return o.Restores.With(listed), err
}

// Begin is Recorded for a process that has locked the folder and will give numbers to effects. If
// the folder was put back since the last call, the present time is a new stamp. What it returns is
// durable: it stays if a time is no longer listed. A new time before a stamp is an error: it would
// change the epochs of numbers that were given.
func Begin(dataDir string, listed []time.Time, now time.Time) (record.Restores, error) {
	if err := Check(dataDir, listed); err != nil {
		return nil, err
	}
	o, err := readOrigin(dataDir)
	if err != nil {
		return nil, err
	}
	all, pending := o.Restores.With(listed), !o.Restored.IsZero()
	stamp := record.Restore{At: now.UTC().Truncate(time.Millisecond), Stamped: true}
	switch last := latest(all.Last(), o.Backup, o.Restored); {
	case now.Before(last), pending && !stamp.At.After(all.Last()):
		return nil, fmt.Errorf("the clock is behind: data folder %s was copied or restored at %s: correct the clock, or if it was ahead then, wait until that time", dataDir, last.Format(time.RFC3339))
	case o.Restores.Stamped() && !all[:len(o.Restores)].Last().Equal(o.Restores.Last()):
		return nil, fmt.Errorf("data folder %s was stamped at %s: remove new entries before that time from restores: a folder needs none", dataDir, o.Restores.Last().Format(time.RFC3339))
	case pending:
		all = append(all, stamp)
	case len(all) == len(o.Restores):
		return all, nil
	}
	if err := (origin{Restores: all}).write(dataDir); err != nil {
		return nil, fmt.Errorf("stamp data folder %s: %w", dataDir, err)
	}
	return all, nil
}

func latest(times ...time.Time) (last time.Time) {
	for _, at := range times {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// Stamp says of a data folder that it is a copy that was put back by other means than [Restore]: by
// hand, or as a snapshot of its disk. No process may have it open. The next start stamps it.
func Stamp(dataDir string, now time.Time) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("stamp data folder %s: %w", dataDir, err)
		}
	}()
	if now.UTC().Year() < 2020 { // before this product
		return fmt.Errorf("the clock is behind: it says %s", now.UTC().Format(time.RFC3339))
	}
	if err := finished(dataDir); err != nil {
		return err
	}
	database := filepath.Join(dataDir, databaseName)
	if _, err := os.Stat(database); err != nil {
		return fmt.Errorf("it is no data folder: %w", err)
	}
	if dir, err := filepath.Abs(dataDir); err != nil {
		return err
	} else if _, err := Read(filepath.Dir(dir)); err == nil {
		return errors.New("it is in a backup: use once restore without --stamp")
	}
	lock, err := pebbledb.Lock(database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	o, err := readOrigin(dataDir)
	if err != nil {
		return err
	}
	o.Restored = now.UTC()
	return o.write(dataDir)
}
