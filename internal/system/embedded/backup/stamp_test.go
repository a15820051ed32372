package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/system/embedded/backup"
)

// A copied is a backup, and a clock.
type copied struct {
	*testing.T
	dir string
	at  time.Time
}

func newCopied(t *testing.T) *copied {
	t.Helper()
	c := &copied{t, filepath.Join(t.TempDir(), "copy"), time.Date(2026, 11, 26, 0, 0, 0, 500, time.UTC)}
	c.write(filepath.Join(t.TempDir(), "data"), c.dir)
	return c
}

func (c *copied) now() time.Time { return c.at }

// write backs a data folder up.
func (c *copied) write(dataDir, dir string) {
	c.Helper()
	db, err := pebbledb.Open(filepath.Join(dataDir, "db"), nil)
	if err != nil {
		c.Fatal(err)
	}
	_, err = backup.Write(c.Context(), backup.Source{DB: db, DataDir: dataDir, Now: c.now}, dir)
	if err := errors.Join(err, db.Close()); err != nil {
		c.Fatal(err)
	}
}

// restore restores the backup to a new folder.
func (c *copied) restore() string {
	c.Helper()
	dir := filepath.Join(c.TempDir(), "data")
	if _, err := backup.Restore(c.Context(), c.dir, dir, c.now); err != nil {
		c.Fatal(err)
	}
	return dir
}

// copyFiles copies the data folder of the backup by hand.
func (c *copied) copyFiles() string {
	c.Helper()
	dir := filepath.Join(c.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(c.dir, "data"))); err != nil {
		c.Fatal(err)
	}
	return dir
}

// begin starts a folder, a second later, and returns the times of its restores and which of them
// are stamps.
func (c *copied) begin(dir string, listed ...time.Time) (times []time.Time, stamps []bool) {
	c.Helper()
	c.at = c.at.Add(time.Second)
	all, err := backup.Begin(dir, listed, c.at)
	if err != nil {
		c.Fatal(err)
	}
	for _, r := range all {
		times, stamps = append(times, r.At), append(stamps, r.Stamped)
	}
	return times, stamps
}

func (c *copied) refused(dir, want string, listed ...time.Time) {
	c.Helper()
	before := c.contents(dir)
	if _, err := backup.Begin(dir, listed, c.at); err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("%v, want %q", err, want)
	}
	if after := c.contents(dir); after != before {
		c.Errorf("the refused folder was changed from %s to %s", before, after)
	}
}

func (c *copied) contents(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "restored.json")) // it may be missing
	return string(text)
}

func TestTheFirstStartOfARestoredFolderStampsItOnce(t *testing.T) {
	c := newCopied(t)
	dir := c.restore()
	first, stamps := c.begin(dir)
	if len(first) != 1 || !stamps[0] || !first[0].Equal(c.at.Truncate(time.Millisecond)) {
		t.Errorf("%v, %v at %v", first, stamps, c.at)
	}
	if again, _ := c.begin(dir); !slices.Equal(again, first) {
		t.Errorf("%v, and it was %v", again, first)
	}
}

func TestEachRestoreOfACopyHasAStampOfItsOwn(t *testing.T) {
	c := newCopied(t)
	first, _ := c.begin(c.restore())
	second, _ := c.begin(c.restore())
	if len(second) != 1 || !second[0].After(first[0]) {
		t.Errorf("%v and then %v", first, second)
	}
}

func TestTheBackupOfARestoredFolderKeepsItsStamps(t *testing.T) {
	c := newCopied(t)
	dir := c.restore()
	first, _ := c.begin(dir)
	c.dir = filepath.Join(t.TempDir(), "second")
	c.write(dir, c.dir)
	got, stamps := c.begin(c.restore())
	if len(got) != 2 || !got[0].Equal(first[0]) || !stamps[0] || !stamps[1] {
		t.Errorf("%v, %v, and the first was %v", got, stamps, first)
	}
	if again, _ := c.begin(dir); len(again) != 1 {
		t.Errorf("the folder that was copied has %v", again)
	}
}

func TestTheFilesOfABackupAreRefusedUntilTheyAreStamped(t *testing.T) {
	c := newCopied(t)
	dir := c.copyFiles()
	listed := c.at // by hand, as for tables
	c.at = c.at.Add(time.Minute)
	c.refused(dir, "once restore --stamp "+dir)
	c.refused(dir, "once restore --stamp "+dir, listed)
	for range 2 { // the second time changes nothing
		if err := backup.Stamp(dir, c.at); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := c.begin(dir); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if err := backup.Stamp(filepath.Join(c.dir, "data"), c.at); err == nil || !strings.Contains(err.Error(), "in a backup") {
		t.Errorf("a backup: %v", err)
	}
	if err := backup.Stamp(t.TempDir(), c.at); err == nil || !strings.Contains(err.Error(), "no data folder") {
		t.Errorf("another folder: %v", err)
	}
}

// TestAClockThatIsBehindIsRefused: numbers and epochs would be those of a time that receivers know.
func TestAClockThatIsBehindIsRefused(t *testing.T) {
	c := newCopied(t)
	right := c.at
	c.at = right.Add(-time.Hour)
	if _, err := backup.Restore(t.Context(), c.dir, filepath.Join(t.TempDir(), "data"), c.now); err == nil || !strings.Contains(err.Error(), "the clock is behind") {
		t.Errorf("%v", err)
	}
	c.at = right
	dir := c.restore()
	c.at = right.Add(-time.Second)
	c.refused(dir, "the clock is behind")
	c.at = right.Add(time.Minute)
	stamps, _ := c.begin(dir)
	c.at = stamps[0].Add(-time.Second)
	c.refused(dir, "the clock is behind")
	if err := backup.Stamp(dir, c.at); err != nil {
		t.Fatal(err)
	}
	c.at = stamps[0]
	c.refused(dir, "the clock is behind")
}

func TestAFolderRemembersTheRestoresThatAConfigurationHasListed(t *testing.T) {
	c := newCopied(t)
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	one, two := c.at.Add(-time.Hour), c.at.Add(-time.Minute)
	if c.begin(dir); c.contents(dir) != "" {
		t.Errorf("a folder without restores has %s", c.contents(dir))
	}
	c.begin(dir, one)
	if got, stamps := c.begin(dir, one, two); !slices.Equal(got, []time.Time{one, two}) || stamps[0] || stamps[1] {
		t.Errorf("%v, %v", got, stamps)
	}
	if got, _ := c.begin(dir, two); !slices.Equal(got, []time.Time{one, two}) {
		t.Errorf("after an entry was removed: %v", got)
	}
}

// Versions before stamps wrote the time of the restore, and had to find it in the configuration.
func TestAFolderThatAnEarlierVersionRestoredNeedsItsEntryOrAStamp(t *testing.T) {
	c := newCopied(t)
	dir, at := c.copyFiles(), c.at.Truncate(time.Second)
	if err := os.WriteFile(filepath.Join(dir, "restored.json"), []byte(`{"at":"`+at.Format(time.RFC3339)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.refused(dir, "once restore --stamp")
	c.refused(dir, "once restore --stamp", at.Add(-time.Second))
	if got, stamps := c.begin(dir, at); !slices.Equal(got, []time.Time{at}) || stamps[0] {
		t.Errorf("%v, %v", got, stamps)
	}
	if !strings.Contains(c.contents(dir), `{"at":"`+at.Format(time.RFC3339)+`"`) {
		t.Errorf("an earlier version does not find its time: %s", c.contents(dir))
	}
	if err := backup.Stamp(dir, c.at); err != nil {
		t.Fatal(err)
	}
	if got, stamps := c.begin(dir, at); len(got) != 2 || stamps[0] || !stamps[1] {
		t.Errorf("%v, %v", got, stamps)
	}
	if text := c.contents(dir); !strings.Contains(text, `"at":"stamped by a newer version`) { // which it refuses
		t.Error(text)
	}
}

// TestATimeBeforeAStampIsRefused: by old habit, a person lists a restore that has its stamp. Numbers
// that were given after the stamp would change their epoch: a linked receiver would wait for the
// first ones of the new epoch, and the message of a pending timer would be a duplicate.
func TestATimeBeforeAStampIsRefused(t *testing.T) {
	c := newCopied(t)
	dir := c.restore()
	stamps, _ := c.begin(dir)
	earlier := stamps[0].Add(-400 * time.Millisecond)
	c.refused(dir, "remove new entries before that time from restores", earlier)
	if err := backup.Stamp(dir, c.at); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(time.Second) // pending timers are in the copy, too
	c.refused(dir, "remove new entries before that time from restores", earlier)
	c.begin(dir)
	later := c.at.Add(time.Millisecond)
	if got, _ := c.begin(dir, later); len(got) != 3 {
		t.Errorf("%v", got)
	}
	c.begin(dir, later)
}

func TestAStampNeedsAClockAndAWholeFolder(t *testing.T) {
	c := newCopied(t)
	dir := c.copyFiles()
	stamp := func(at time.Time, want string) {
		t.Helper()
		before := c.contents(dir)
		if err := backup.Stamp(dir, at); err == nil || !strings.Contains(err.Error(), want) || c.contents(dir) != before {
			t.Errorf("%v, want %q", err, want)
		}
	}
	stamp(time.Unix(0, 0), "the clock is behind")
	if err := os.Mkdir(filepath.Join(dir, ".unfinished"), 0o700); err != nil {
		t.Fatal(err)
	}
	stamp(c.at, "was interrupted")
}
