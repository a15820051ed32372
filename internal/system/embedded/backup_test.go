package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/system/embedded/backup"
)

// published is a stream whose messages publish an object under their id.
func published() system.Stream {
	return system.Stream{Stream: record.Stream{Name: "reports", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
		a.Blob(m.ID, []byte("report "+m.ID))
		return nil
	}}}
}

// A backedUp is a place with messages and objects, and a backup of it.
type backedUp struct {
	place
	dir string
}

func newBackedUp(t *testing.T) *backedUp {
	t.Helper()
	b := &backedUp{place: place{t: t, dir: t.TempDir(), config: forwarding}, dir: filepath.Join(t.TempDir(), "backup")}
	r := b.start()
	for i := range 3 {
		r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint("a", i), Group: "g", Body: []byte(`{}`)})
	}
	r.idle(t)
	b.interrupted()
	b.backUp(r)
	r.send(t, client.Message{Stream: "orders", Key: "later", Group: "g", Body: []byte(`{}`)})
	r.idle(t)
	r.stop()
	return b
}

// interrupted adds bytes to the output file, as if lines were being written.
func (b *backedUp) interrupted() {
	b.t.Helper()
	f, err := os.OpenFile(b.path("ledger.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"stream":"orders","gro`)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *backedUp) path(name string) string { return filepath.Join(b.place.dir, name) }

func (b *backedUp) backUp(r *running) {
	b.t.Helper()
	info, err := r.Backup(b.t.Context(), b.dir)
	if err != nil || info.Files != 1 || info.Unknown != 0 {
		b.t.Fatalf("%+v, %v", info, err)
	}
}

// lose removes the data folder and the output file.
func (b *backedUp) lose() {
	b.t.Helper()
	if err := errors.Join(os.RemoveAll(b.path("data")), os.Remove(b.path("ledger.jsonl")), os.Remove(b.path(".ledger.jsonl.owner"))); err != nil {
		b.t.Fatal(err)
	}
}

func TestARestoredBackupHasTheCommittedLinesAndKnowsTheirMessages(t *testing.T) {
	b := newBackedUp(t)
	b.lose()
	if _, err := backup.Restore(t.Context(), b.dir, b.path("data"), time.Now); err != nil {
		t.Fatal(err)
	}
	if got := len(b.lines()); got != 3 {
		t.Errorf("%d lines were restored, want 3", got)
	}
	r := b.start()
	for _, key := range []string{"a0", "a1", "a2", "later"} {
		if got := r.send(t, client.Message{Stream: "orders", Key: key, Group: "g", Body: []byte(`{}`)}); got.Replayed != (key != "later") {
			t.Errorf("%s: %+v", key, got)
		}
	}
	r.idle(t)
	r.stop()
	lines := b.lines()
	if len(lines) != 4 || lines[3].ID != "later" || lines[3].Number <= 1<<50 {
		t.Errorf("lines %+v", lines)
	}
}

// TestOneBackupThatIsRestoredTwiceGivesNoNumberTwice loses the folder after its first restore, and
// with it the stamp.
func TestOneBackupThatIsRestoredTwiceGivesNoNumberTwice(t *testing.T) {
	b := newBackedUp(t)
	seen := map[uint64]bool{}
	for n := range 3 {
		b.lose()
		if _, err := backup.Restore(t.Context(), b.dir, b.path("data"), time.Now); err != nil {
			t.Fatal(err)
		}
		r := b.start()
		r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint("new", n), Group: "g", Body: []byte(`{}`)})
		r.idle(t)
		r.stop()
		lines := b.lines()
		if len(lines) != 4 || seen[lines[3].Number] {
			t.Errorf("restore %d: %+v, and there were %v", n, lines, seen)
		}
		seen[lines[3].Number] = true
	}
}

func TestTheFilesOfABackupAreNotOpenedWithoutAStampEvenToRepairThem(t *testing.T) {
	b := newBackedUp(t)
	data := filepath.Join(b.dir, "data")
	var unstamped *backup.UnstampedError
	for _, inspect := range []bool{false, true} {
		if _, err := embedded.Open(embedded.Options{DataDir: data, Inspect: inspect}); !errors.As(err, &unstamped) || unstamped.Dir != data {
			t.Errorf("inspect %v: %v", inspect, err)
		}
	}
	s, err := embedded.Open(embedded.Options{DataDir: data, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestARestoreChangesNoFileThatExists(t *testing.T) {
	b := newBackedUp(t)
	before := b.snapshot()
	for _, dir := range []string{b.path("data"), b.path("empty")} { // the output file has a later line
		if _, err := backup.Restore(t.Context(), b.dir, dir, time.Now); err == nil {
			t.Errorf("restored to %s", dir)
		}
	}
	if after := b.snapshot(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if err := os.Remove(b.path("ledger.jsonl")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one finds the output file as it was copied
		if _, err := backup.Restore(t.Context(), b.dir, b.path("empty"), time.Now); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(b.path("empty")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARestoreFillsTheEmptyFolderThatIsThere(t *testing.T) {
	b := newBackedUp(t)
	b.lose()
	there, link := b.path("there"), b.path("link")
	if err := errors.Join(os.Mkdir(there, 0o700), os.Symlink(there, link)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(there)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), b.dir, link, time.Now); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(link); err != nil || !os.SameFile(before, after) {
		t.Errorf("the folder was replaced: %v", err)
	}
	if v, err := backup.Verify(t.Context(), link, func(int) {}); err != nil || v.Damaged > 0 || v.Records == 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAnInterruptedRestoreCannotBeOpenedAndIsContinued(t *testing.T) {
	b := newBackedUp(t)
	b.lose()
	part := b.path("data/.unfinished")
	if err := errors.Join(os.MkdirAll(part, 0o700), os.WriteFile(filepath.Join(part, "db"), []byte("a part"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(embedded.Options{DataDir: b.path("data")}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("opened: %v", err)
	}
	if _, err := backup.Restore(t.Context(), b.dir, b.path("data"), time.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	b.start().stop()
}

func TestARestoreDoesNotWriteIntoTheBackup(t *testing.T) {
	b := newBackedUp(t)
	b.lose()
	for _, dir := range []string{filepath.Join(b.dir, "new"), filepath.Join(b.dir, "data", "new")} {
		if _, err := backup.Restore(t.Context(), b.dir, dir, time.Now); err == nil || !strings.Contains(err.Error(), "in the backup") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestARestoredOutputFileHasItsPermissions(t *testing.T) {
	b := newBackedUp(t)
	before, err := os.Stat(b.path("ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	b.lose()
	if _, err := backup.Restore(t.Context(), b.dir, b.path("data"), time.Now); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(b.path("ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if after.Mode() != before.Mode() {
		t.Errorf("%v, and it was %v", after.Mode(), before.Mode())
	}
}

func TestARestoreRemovesNoFolderOfAnotherName(t *testing.T) {
	b := newBackedUp(t)
	b.lose()
	other := b.path("ledger.jsonl.unfinished/precious")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), b.dir, b.path("data"), time.Now); err == nil {
		t.Error("restored")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// snapshot lists the files with their sizes and times.
func (b *backedUp) snapshot() string {
	b.t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(b.place.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(&text, path, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return text.String()
}

func TestABackupIsNotMadeInTheDataFolderNorOverAnotherOne(t *testing.T) {
	p := place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	taken := filepath.Join(p.dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	through := filepath.Join(p.dir, "through")
	if err := os.Symlink(filepath.Join(p.dir, "data", "blobs"), through); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(p.dir, "data", "b"): "outside", filepath.Join(through, "new", "b"): "outside", filepath.Join(p.dir, "data"): "outside", taken: "exists already",
	} {
		if _, err := r.Backup(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestABackupThatFailsLeavesNothing(t *testing.T) {
	b := newBackedUp(t)
	if err := os.Truncate(b.path("ledger.jsonl"), 10); err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{DataDir: b.path("data")})
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "b")
	info, err := s.Backup(t.Context(), source)
	if err != nil || info.Unknown != 1 {
		t.Errorf("without its configuration: %+v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err = embedded.Open(embedded.Options{DataDir: b.path("data")}); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "c")
	if _, err := s.Backup(ctx, target); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup that was ended: %v", err)
	}
	if names, err := os.ReadDir(filepath.Dir(target)); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnOutputFileThatWasMovedAwayIsNotInABackup(t *testing.T) {
	p := place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	r.send(t, client.Message{Stream: "orders", Key: "a", Group: "g", Body: []byte(`{}`)})
	r.idle(t)
	ledger := filepath.Join(p.dir, "ledger.jsonl")
	if err := os.Rename(ledger, ledger+".1"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "b")
	if info, err := r.Backup(t.Context(), dir); err != nil || info.Files != 0 || info.Missing != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	if v, err := backup.Verify(t.Context(), dir, func(int) {}); err != nil || v.Damaged > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAnOutputFileThatIsReplacedDuringABackupIsAnError(t *testing.T) {
	p := place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	r.send(t, client.Message{Stream: "orders", Key: "a", Group: "g", Body: []byte(`{}`)})
	r.idle(t)
	r.stop()
	ledger := filepath.Join(p.dir, "ledger.jsonl")
	var replace atomic.Bool
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: p.data(), Now: func() time.Time {
		if replace.CompareAndSwap(true, false) { // by a new file, which is longer already
			err := errors.Join(os.Rename(ledger, ledger+".1"), os.WriteFile(ledger, make([]byte, 1000), 0o600))
			if err != nil {
				t.Error(err)
			}
		}
		return time.Now()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(nil); err != nil {
		t.Fatal(err)
	}
	replace.Store(true)
	if info, err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "b")); err == nil || !strings.Contains(err.Error(), "moved away") {
		t.Errorf("%+v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestObjectsAreInABackupStagedOrPublished(t *testing.T) {
	p := place{t: t, dir: t.TempDir(), config: "streams:\n  reports: {}\n"}
	r := p.start(published())
	r.send(t, client.Message{Stream: "reports", Key: "a", Body: []byte(`{}`)})
	r.idle(t)
	staged := filepath.Join(p.dir, "data", "blobs", ".staged", "x")
	if err := os.WriteFile(staged, []byte("staged"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backup")
	info, err := r.Backup(t.Context(), dir)
	r.stop()
	if err != nil || info.Objects != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	for name, want := range map[string]string{"a": "report a", ".staged/x": "staged"} {
		if got, err := os.ReadFile(filepath.Join(dir, "data", "blobs", name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A command that changes a folder without a start writes dead letters, whose ids need the stamp.
func TestAFolderThatIsChangedBeforeItsFirstStartIsStampedThen(t *testing.T) {
	b := newBackedUp(t)
	b.lose()
	if _, err := backup.Restore(t.Context(), b.dir, b.path("data"), time.Now); err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{DataDir: b.path("data"), Inspect: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if all, err := backup.Recorded(b.path("data"), nil); err != nil || !all.Stamped() {
		t.Errorf("%v, %v", all, err)
	}
}
