package file

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// TestDeliveredLinesAreNotCutOffByAnOlderCopyOfTheDataFolder restores copies of the database, made
// at several moments, beside a file with the lines of all times.
func TestDeliveredLinesAreNotCutOffByAnOlderCopyOfTheDataFolder(t *testing.T) {
	b := newCopied(t)
	b.start()
	b.send("a", "b")
	b.copy() // while it runs
	b.now = b.now.Add(noteEvery)
	b.send("c")
	b.stop(true)
	b.copy()
	b.start()
	b.copy() // after a start that wrote nothing
	b.send("d")
	b.stop(true)
	whole := line("a") + line("b") + line("c") + line("d")
	b.want(whole)
	for i := range b.copies {
		err := b.older(i)
		var ahead *aheadError
		if !errors.As(err, &ahead) || ahead.Size != int64(len(whole)) || ahead.Committed >= ahead.Size {
			t.Fatalf("copy %d: %v", i, err)
		}
		for _, says := range []string{b.path, "put the newest one back", "move the file away", "--accept-loss"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("copy %d: does not say %q: %v", i, says, err)
			}
		}
		b.want(whole)
	}
	b.start()
	b.send("d", "e")
	b.stop(false)
	b.want(whole + line("e"))
}

func TestACopyMadeShortlyBeforeTheEndCutsNoDeliveredLine(t *testing.T) {
	b := newCopied(t)
	b.start()
	b.send("a")
	b.copy()
	b.send("b")
	b.stop(false)
	if err := b.older(0); !errors.As(err, new(*aheadError)) {
		t.Errorf("got %v", err)
	}
	b.want(line("a") + line("b"))
}

func TestAFileKeepsTheLinesThatItsDataFolderDoesNotKnowWhenTheLossIsAccepted(t *testing.T) {
	b := newCopied(t)
	b.start()
	b.send("a")
	b.stop(false)
	b.copy()
	b.start()
	b.send("b")
	b.stop(false)
	var log bytes.Buffer
	b.disk = b.copies[0]
	accepting := Options{AcceptLoss: true, Log: slog.New(slog.NewTextHandler(&log, nil)), open: func(name string, flag int) (handle, error) {
		if name != b.path { // it is signed
			b.copy()
		}
		return openFile(name, flag)
	}}
	s, err := b.open(b.disk, accepting)
	if err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, b.path) {
		t.Errorf("log: %q", text)
	}
	b.sender = s
	b.stop(true)
	b.disk = b.copies[1] // as a crash at that moment leaves it
	b.start()
	b.send("a", "c")
	b.stop(true)
	b.want(line("a") + line("b") + line("c"))
	b.start() // it is no loss any more
	b.send("c", "d")
	b.stop(false)
	b.want(line("a") + line("b") + line("c") + line("d"))
}

// A copied database is on a disk of which copies are made, with a file on the real one.
type copied struct {
	t      *testing.T
	path   string
	now    time.Time
	disk   *vfs.MemFS
	copies []*vfs.MemFS
	db     *pebble.DB
	sender *Sender
}

func newCopied(t *testing.T) *copied {
	return &copied{t: t, path: filepath.Join(t.TempDir(), "out.jsonl"), now: time.Now(), disk: vfs.NewCrashableMem()}
}

// open opens a database and the file. If the file is not opened, the database is closed again.
func (b *copied) open(disk *vfs.MemFS, o Options) (*Sender, error) {
	b.t.Helper()
	db, err := pebbledb.Open("db", &pebble.Options{FS: disk})
	if err != nil {
		b.t.Fatal(err)
	}
	o.Now = func() time.Time { return b.now }
	s, err := Open(db, b.path, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b.db = db
	return s, nil
}

func (b *copied) start() {
	b.t.Helper()
	s, err := b.open(b.disk, Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.sender = s
}

func (b *copied) send(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if errs := b.sender.Send(b.t.Context(), []record.Delivery{named(name)}); errs[0] != nil {
			b.t.Fatal(errs[0])
		}
	}
}

// copy keeps a copy of the disk as it is.
func (b *copied) copy() {
	b.copies = append(b.copies, b.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}))
}

// older opens a copy, which must be refused, and returns the error.
func (b *copied) older(i int) error {
	b.t.Helper()
	s, err := b.open(b.copies[i], Options{})
	if err == nil {
		b.sender = s
		b.stop(false)
	}
	return err
}

// stop closes the file and the database. A killed process does not close the file.
func (b *copied) stop(killed bool) {
	b.t.Helper()
	if killed {
		b.sender.drop()
	}
	if err := errors.Join(b.sender.Close(), b.db.Close()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *copied) want(content string) {
	b.t.Helper()
	got, err := os.ReadFile(b.path)
	if err != nil || string(got) != content {
		b.t.Errorf("got %q, %v; want %q", got, err, content)
	}
}
