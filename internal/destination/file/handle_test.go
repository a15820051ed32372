package file

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func TestBytesBehindTheCommittedLengthAreCutOff(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	b.close(s)
	b.append(line("a/2") + `{"torn`)
	s = b.open(Options{})
	b.want("a/1")
	b.send(s, named("a/1"), named("a/2"))
	b.want("a/1", "a/2")
	b.append("somebody else's")
	b.send(s, named("a/3"))
	b.want("a/1", "a/2", "a/3")
}

func TestAnExistingFileIsKept(t *testing.T) {
	b := newBench(t)
	if err := os.MkdirAll(filepath.Dir(b.path), 0o755); err != nil {
		t.Fatal(err)
	}
	b.append(line("old") + strings.TrimSuffix(line("torn"), "\n"))
	s := b.open(Options{})
	b.send(s, named("a/1"))
	b.close(s)
	b.append("cut")
	b.open(Options{})
	b.want("old", "torn", "a/1")
}

func TestAMissingFileIsCreatedWithAWarning(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	b.close(s)
	if err := os.RemoveAll(filepath.Dir(b.path)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s = b.open(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log: %q", log.String())
	}
	b.send(s, named("a/1"), named("a/2"))
	b.want("a/2")
	b.close(s)
	b.open(Options{})
	b.want("a/2")
}

func TestAFileMovedAwayWhileOpenIsCreatedAgain(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		t.Fatal(err)
	}
	b.send(s, named("a/2"), named("x"))
	b.want("a/2", "x")
}

func TestAFileThatReplacesAnOpenOneKeepsItsLines(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	if err := os.WriteFile(b.path+".new", []byte(line("other")+line("lines")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.path+".new", b.path); err != nil {
		t.Fatal(err)
	}
	b.send(s, named("a/2"))
	b.want("other", "lines", "a/2")
	b.close(s)
	b.send(b.open(Options{}), named("a/1"), named("a/3"))
	b.want("other", "lines", "a/2", "a/3")
}

func TestATruncatedFileIsAnErrorThatNamesTheRemedy(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"))
	if err := os.Truncate(b.path, 3); err != nil {
		t.Fatal(err)
	}
	var short *shortError
	if errs := s.Send(t.Context(), []record.Delivery{named("a/2")}); !errors.As(errs[0], &short) {
		t.Errorf("got %v", errs[0])
	}
	b.close(s)
	_, err := Open(b.db, b.path, Options{})
	if !errors.As(err, &short) || short.Size != 3 || short.Committed != int64(len(line("a/1"))) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	b.send(b.open(Options{}), named("a/2"))
	b.want("a/2")
}

func TestAFolderIsNotAFile(t *testing.T) {
	b := newBench(t)
	if err := os.MkdirAll(b.path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(b.db, b.path, Options{}); err == nil {
		t.Error("opened")
	}
	b.path = os.DevNull
	if _, err := Open(b.db, b.path, Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
