package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A delivered folder has a data folder and the output file and objects that it wrote, as a kill in
// the middle of a line left them.
type delivered struct {
	dir      string
	whole    string // a copy that is never opened
	messages []record.Message
}

const deliveredMessages = 40

func newDelivered(t *testing.T) *delivered {
	t.Helper()
	d := &delivered{dir: filepath.Join(t.TempDir(), "used"), whole: filepath.Join(t.TempDir(), "whole")}
	for i := range deliveredMessages {
		d.messages = append(d.messages, record.Message{Stream: "orders", Group: fmt.Sprint("g", i%3), ID: fmt.Sprint("id", i), Body: fmt.Append(nil, "body ", i)})
	}
	s, engine, err := d.open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d.send(t, s, engine)
	if err := s.db.LogData(nil, pebble.Sync); err != nil { // as when it is idle
		t.Fatal(err)
	}
	if err := s.blobs.Stage(t.Context(), "stray", []byte("of an attempt that a kill ended")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(d.whole, os.DirFS(d.dir)); err != nil { // before it is closed
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(d.whole, "ledger.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"stream":"orders","id":"a line that a kill interr`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// restore puts the copy in the place of the folder. The path stays the same, because the database
// knows its files by their paths.
func (d *delivered) restore(t *testing.T) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(d.dir), os.CopyFS(d.dir, os.DirFS(d.whole))); err != nil {
		t.Fatal(err)
	}
}

func (d *delivered) open(log *slog.Logger) (*System, system.Engine, error) {
	c, err := config.Parse("test", []byte("streams:\n  orders: {destinations: [ledger]}\ndestinations:\n  ledger: {file: "+d.ledger()+"}\n"))
	if err != nil {
		return nil, nil, err
	}
	s, err := Open(Options{DataDir: filepath.Join(d.dir, "data"), Config: c, Log: log})
	if err != nil {
		return nil, nil, err
	}
	handler := func(_ context.Context, a *record.Attempt, m record.Message) error {
		a.Send(record.Effect{To: []string{"ledger"}, ID: m.ID, Body: m.Body})
		a.Blob("objects/"+m.ID, m.Body)
		return nil
	}
	engine, err := s.Start([]system.Stream{{Stream: record.Stream{Name: "orders", Handler: handler}}})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, engine, nil
}

func (d *delivered) ledger() string { return filepath.Join(d.dir, "ledger.jsonl") }

// send processes and publishes all messages, each of which may have been processed before.
func (d *delivered) send(t *testing.T, s *System, engine system.Engine) {
	t.Helper()
	for i, o := range engine.Process(t.Context(), d.messages) {
		if o.Kind != record.Processed && o.Kind != record.Duplicate {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
	if info, err := s.Sweep(t.Context()); err != nil || info.Failed > 0 {
		t.Fatalf("%+v, %v", info, err)
	}
}

// TestDamageOfFilesBesideTheDatabaseIsRefusedOrLosesNothing damages, cuts and removes output files,
// the files that name their owners, and published objects.
func TestDamageOfFilesBesideTheDatabaseIsRefusedOrLosesNothing(t *testing.T) {
	places := 6
	if *long {
		places = 200
	}
	d, rng := newDelivered(t), rand.New(rand.NewPCG(3, 3))
	whole, err := os.ReadFile(filepath.Join(d.whole, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	lines = lines[:len(lines)-1]
	if len(lines) != deliveredMessages {
		t.Fatalf("%d lines, want %d", len(lines), deliveredMessages)
	}
	for _, kind := range []struct{ name, file string }{
		{"output", "ledger.jsonl"}, {"owner", ".ledger.jsonl.owner"}, {"object", "data/blobs/objects/id7"}, {"staged", "data/blobs/.staged/stray"},
	} {
		refused, said, kept := 0, 0, 0
		for range places {
			d.restore(t)
			path := filepath.Join(d.dir, kind.file)
			did, removed := harmFile(t, path, rng)
			var log bytes.Buffer
			s, engine, err := d.open(slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				refused++
				if text := err.Error(); !strings.Contains(text, path) || !strings.Contains(text, "move the file away") {
					t.Errorf("%s: the message does not name the file, or what to do: %v", did, err)
				}
				continue
			}
			d.send(t, s, engine)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if removed && path == d.ledger() { // as an operator does who rotates it
				if said++; !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), path) {
					t.Errorf("%s: the log does not name it: %s", did, &log)
				}
				continue
			}
			kept++
			d.check(t, did, lines, path == d.ledger())
		}
		t.Logf("%-6s: %d refused, %d begun anew with a warning, %d lost nothing else", kind.name, refused, said, kept)
	}
}

// check compares the output file with the delivered lines. One of them may be changed, if the file
// itself was damaged: its content belongs to its readers and has no checksums.
func (d *delivered) check(t *testing.T, did string, lines []string, damaged bool) {
	t.Helper()
	content, err := os.ReadFile(d.ledger())
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, l := range lines {
		if strings.Count(string(content), l) != 1 {
			missing++
		}
	}
	if missing > 1 || missing == 1 && !damaged || strings.Count(string(content), "\n") > len(lines)+1 {
		t.Errorf("%s: %d lines are missing or twice there; %d bytes", did, missing, len(content))
	}
}

// harmFile changes a bit of a file, cuts it or removes it. It returns a description.
func harmFile(t *testing.T, path string, rng *rand.Rand) (did string, removed bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := rng.IntN(len(data))
	switch rng.IntN(3) {
	case 0:
		data[at] ^= byte(1) << rng.IntN(8)
		did, err = fmt.Sprintf("byte %d of %s changed", at, path), os.WriteFile(path, data, 0o600)
	case 1:
		did, err = fmt.Sprintf("%s cut to %d of %d bytes", path, at, len(data)), os.Truncate(path, int64(at))
	default:
		did, removed, err = path+" removed", true, os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return did, removed
}
