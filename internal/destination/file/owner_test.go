package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// A folder is a data folder that opens files for one step each.
type folder struct {
	t   *testing.T
	dir string
}

// run opens the database and the file, sends, and closes both.
func (f folder) run(path string, options Options, names ...string) error {
	f.t.Helper()
	db, err := pebbledb.Open(f.dir, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing to lose
	s, err := Open(db, path, options)
	if err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, errors.Join(s.Send(f.t.Context(), []record.Delivery{named(name)})...))
	}
	return errors.Join(err, s.Close())
}

func signatureOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".owner")
}

func TestLinesOfAnotherDataFolderAreNotCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	first, second := folder{t, t.TempDir()}, folder{t, t.TempDir()}
	if err := errors.Join(first.run(path, Options{}, "a"), first.run(path, Options{}, "b"), second.run(path, Options{}, "c")); err != nil {
		t.Fatal(err)
	}
	if err := first.run(path, Options{}, "d"); !errors.As(err, new(*aheadError)) {
		t.Errorf("the first folder again: %v", err)
	}
	content, err := os.ReadFile(path)
	if want := line("a") + line("b") + line("c"); err != nil || string(content) != want {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestAFileHasOneWriterAtATime(t *testing.T) {
	b := newBench(t)
	b.send(b.open(Options{}), named("a"))
	db, err := pebbledb.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing to lose
	if _, err := Open(db, b.path, Options{}); !errors.Is(err, errInUse) {
		t.Errorf("open: %v", err)
	}
}

func TestASignatureThatIsMissingOrDamagedIsWrittenAgainIfThereIsNothingToCutOff(t *testing.T) {
	for _, damage := range []func(string) error{
		os.Remove,
		func(name string) error { return os.Truncate(name, 0) },
		func(name string) error { return os.Truncate(name, 30) },
		func(name string) error { return os.WriteFile(name, []byte("somebody\nelse\n"), 0o600) },
	} {
		path := filepath.Join(t.TempDir(), "out.jsonl")
		first, second := folder{t, t.TempDir()}, folder{t, t.TempDir()}
		err := first.run(path, Options{}, "a")
		if err == nil {
			err = damage(signatureOf(path))
		}
		if err == nil {
			err = first.run(path, Options{}, "b")
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := second.run(path, Options{}, "c"); err != nil {
			t.Fatal(err)
		}
		if err := first.run(path, Options{}); !errors.As(err, new(*aheadError)) {
			t.Errorf("the signature was not written again: %v", err)
		}
		content, err := os.ReadFile(path)
		if want := line("a") + line("b") + line("c"); err != nil || string(content) != want {
			t.Errorf("got %q, %v", content, err)
		}
	}
}

// TestTheEndOfAnInterruptedRoundIsCutOffOnlyIfTheSignatureShowsWhoWroteIt harms the signature of a
// file with a line that a kill interrupted.
func TestTheEndOfAnInterruptedRoundIsCutOffOnlyIfTheSignatureShowsWhoWroteIt(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"complete": nil,
		"removed":  os.Remove,
		"cut":      func(name string) error { return os.Truncate(name, 30) },
		"changed":  func(name string) error { return os.WriteFile(name, []byte("somebody\n0\n"), 0o600) },
		"no size":  func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newCopied(t)
			b.start()
			b.send("a")
			b.stop(true)
			if err := os.WriteFile(b.path, []byte(line("a")+"torn"), 0o600); err != nil {
				t.Fatal(err)
			}
			if damage == nil {
				b.start()
				b.stop(false)
				b.want(line("a"))
				return
			}
			if err := damage(signatureOf(b.path)); err != nil {
				t.Fatal(err)
			}
			if _, err := b.open(b.disk, Options{}); err == nil || !strings.Contains(err.Error(), signatureOf(b.path)) {
				t.Errorf("got %v", err)
			}
			b.want(line("a") + "torn")
		})
	}
}

func TestTheSignatureOfAFileThatWasMovedAwayDoesNotCountForTheNextOne(t *testing.T) {
	b := newCopied(t)
	b.start()
	b.send("a line that is longer than the next one", "b")
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		t.Fatal(err)
	}
	b.send("c")
	b.stop(true)
	if err := os.WriteFile(b.path, []byte(line("c")+"torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.stop(false)
	b.want(line("c"))
}

func TestASignatureIsOnDiskBeforeItReplacesAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	first, second := folder{t, t.TempDir()}, folder{t, t.TempDir()}
	if err := first.run(path, Options{}, "a"); err != nil {
		t.Fatal(err)
	}
	synced := 0
	failing := Options{open: func(opened string, flag int) (handle, error) {
		h, err := openFile(opened, flag)
		if err != nil || opened == path {
			return h, err
		}
		return &faulty{handle: h, sync: func(handle) error { synced++; return syscall.EIO }}, nil
	}}
	if err := second.run(path, failing, "b"); !errors.Is(err, syscall.EIO) || synced != 1 {
		t.Errorf("%d syncs, %v", synced, err)
	}
	if err := first.run(path, Options{}, "c"); err != nil {
		t.Errorf("the first folder is not the owner any more: %v", err)
	}
	if err := second.run(path, Options{}, "d"); err != nil {
		t.Errorf("the second folder can't take the file over any more: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("left beside the file and its signature: %v, %v", entries, err)
	}
}

func TestAFolderThatEndedBeforeItSignedIsNotLockedOut(t *testing.T) {
	for _, moved := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "out.jsonl")
		first, second := folder{t, t.TempDir()}, folder{t, t.TempDir()}
		err := first.run(path, Options{}, "a")
		if err == nil && moved {
			err = os.Remove(path)
		}
		aside := signatureOf(path) + ".aside"
		// a folder in the place of the signature: the second data folder comes no further than to
		// that
		if err == nil {
			err = errors.Join(os.Rename(signatureOf(path), aside), os.Mkdir(signatureOf(path), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := second.run(path, Options{}, "b"); err == nil {
			t.Fatal("signed a folder")
		}
		if err := errors.Join(os.Remove(signatureOf(path)), os.Rename(aside, signatureOf(path))); err != nil {
			t.Fatal(err)
		}
		if err := second.run(path, Options{}, "c"); err != nil {
			t.Errorf("moved %t: %v", moved, err)
		}
	}
}

// TestAnAdoptedFileAndItsOwnerAreDurableBeforeItsLength opens a file that was there before, and
// looks at what was synced when the database knows the file.
func TestAnAdoptedFileAndItsOwnerAreDurableBeforeItsLength(t *testing.T) {
	disk := vfs.NewCrashableMem()
	db, err := pebbledb.Open("db", &pebble.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(path, []byte("unfinished"), 0o600); err != nil {
		t.Fatal(err)
	}
	synced := map[string]string{}
	open := func(name string, flag int) (handle, error) {
		h, err := openFile(name, flag)
		if err != nil {
			return nil, err
		}
		return &faulty{handle: h, sync: func(h handle) error {
			content, err := os.ReadFile(name)
			synced[filepath.Base(name)] = string(content)
			return errors.Join(err, h.Sync())
		}}, nil
	}
	s, err := Open(db, path, Options{open: open})
	if err != nil {
		t.Fatal(err)
	}
	if got := synced["out.jsonl"]; got != "unfinished\n" {
		t.Errorf("of the adopted file %q was synced", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := pebbledb.Open("db", &pebble.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if again, err := Open(after, path, Options{}); err != nil {
		t.Errorf("after a power failure: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestTheNameOfAnOwnerIsDurableBeforeItIsWrittenBesideTheFile looks at the database as a power
// failure leaves it when the name beside the file is written.
func TestTheNameOfAnOwnerIsDurableBeforeItIsWrittenBesideTheFile(t *testing.T) {
	disk := vfs.NewCrashableMem()
	db, err := pebbledb.Open("db", &pebble.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var before *vfs.MemFS
	path := filepath.Join(t.TempDir(), "out.jsonl")
	s, err := Open(db, path, Options{open: func(name string, flag int) (handle, error) {
		if name != path {
			before = disk.CrashClone(vfs.CrashCloneCfg{})
		}
		return openFile(name, flag)
	}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.ownName()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := pebbledb.Open("db", &pebble.Options{FS: before})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if got, err := (&Sender{db: after, marks: newMarks(after, nil, path)}).ownName(); got != want || err != nil {
		t.Errorf("the owner is %q after a power failure, and %q beside the file: %v", got, want, err)
	}
}
