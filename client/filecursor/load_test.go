package filecursor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
)

const first = "\twork/a/7/0\n"

func TestAFileContinuesAfterItsLastWholeLine(t *testing.T) {
	nul := strings.Repeat("\x00", 4096)
	for _, c := range []struct {
		name, content string
		cursor        uint64
		dead          []client.NumberRange
		number        uint64
		kept          string // defaults to content
		wrong         string // part of the error
	}{
		{name: "a new file", kept: first},
		{name: "a first line that was cut off in the session", content: "\twork/", kept: first},
		{name: "a first line that was cut off in the life", content: "\twork/a/7", kept: first},
		{name: "a first line of an earlier life that was cut off", content: "\twork/a/6/", kept: first},
		{name: "a first line that was never written", content: "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", kept: first},
		{name: "a first line that was written in part", content: "\twork/a\x00\x00\x00\x00\x00", kept: first},
		{name: "the first line only", content: first},
		{name: "whole lines", content: first + "x\t7/1\ny\t7/2\n", cursor: 2, number: 2},
		{name: "lines that were not reported", content: first + "x\t7/1\ny\t7/2\n", cursor: 1, number: 2},
		{name: "a copy from before", content: first + "x\t7/1\n", cursor: 2, number: 1},
		{name: "a text with tabs and slashes", content: first + "x\t1/2\t7/3\n", number: 3},
		{name: "a line without text", content: first + "\t7/3\n", number: 3},
		{name: "a torn line", content: first + "x\t7/1\ny\t7/2", cursor: 1, number: 1, kept: first + "x\t7/1\n"},
		{name: "a torn line after the first one", content: first + "x\t7", kept: first},
		{name: "a torn line before entries that were skipped", content: first + "x\t7/1\ny\t7/2", cursor: 4, dead: []client.NumberRange{{From: 2, To: 2}, {From: 3, To: 4}}, number: 1, kept: first + "x\t7/1\n"},
		{name: "a torn line that was reported before entries that were skipped", content: first + "x\t7/1\ny\t7/2", cursor: 4, dead: []client.NumberRange{{From: 3, To: 4}}, wrong: "is cut off after entry 1, but entries up to 2 were reported as processed"},
		{name: "a torn line that was reported", content: first + "x\t7/1\ny\t7/2", cursor: 2, wrong: "is cut off after entry 1, but entries up to 2 were reported as processed"},
		{name: "pages that were not written", content: first + "x\t7/1\n" + nul, cursor: 1, number: 1, kept: first + "x\t7/1\n"},
		{name: "pages that were not written before others", content: first + "x\t7/1\ny" + nul + "z\t7/3\n", cursor: 1, number: 1, kept: first + "x\t7/1\n"},
		{name: "pages that were reported", content: first + "x\t7/1\n" + nul, cursor: 2, wrong: "is cut off after entry 1"},
		{name: "an earlier life", content: "\twork/a/6/0\nx\t6/9\n", number: 0},
		{name: "an earlier life that was torn", content: "\twork/a/6/0\nx\t6/9\ny\t6", number: 0, kept: "\twork/a/6/0\nx\t6/9\n"},
		{name: "an earlier life, and entries of this one were processed", content: "\twork/a/6/0\nx\t6/9\n", cursor: 3, wrong: "the store has no number of this session"},
		{name: "a later life", content: "\twork/a/7/0\nx\t8/1\n", wrong: "has a later life of the session"},
		{name: "a lost file", cursor: 3, wrong: "the store has no number of this session"},
		{name: "another session", content: "\twork/b/7/0\nx\t7/1\n", wrong: "is the file of another session: work/b"},
		{name: "a session of a group", content: "\twork/a/a/7/0\nx\t7/1\n", wrong: "is the file of another session: work/a/a"},
		{name: "no first line", content: "x\t7/1\n", wrong: "has content that is not of a session"},
		{name: "a line without a number", content: first + "x\n", wrong: "has content that is not of a session"},
		{name: "a number that is none", content: first + "x\t7/-1\n", wrong: "has content that is not of a session"},
		{name: "text without a newline", content: "my thesis", wrong: "has content that is not of a session"},
		{name: "text", content: "a\nb\n", wrong: "has content that is not of a session"},
		{name: "a table", content: "a\tb\n1\t2/3\n", wrong: "has content that is not of a session"},
		{name: "an image", content: "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + nul, wrong: "has content that is not of a session"},
		{name: "a database", content: "SQLite format 3\x00" + nul, wrong: "has content that is not of a session"},
		{name: "zeros", content: nul, wrong: "has content that is not of a session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := opened()
			o.Cursor, o.Dead = c.cursor, c.dead
			d := &memoryDisk{content: []byte(c.content)}
			f, err := load(t, d, o, Options{})
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || string(d.content) != c.content {
					t.Errorf("error %v; the file has %q", err, d.content)
				}
				return
			}
			if c.kept == "" {
				c.kept = c.content
			}
			if err != nil || f.Number() != c.number || string(d.content) != c.kept || !bytes.Equal(d.content, d.durable) {
				t.Errorf("error %v, number %d; the file has %q, of which %q is durable", err, f.Number(), d.content, d.durable)
			}
		})
	}
}

func TestAFileThatWasLostContinuesWhereAPersonSaysAndKeepsTheDecision(t *testing.T) {
	for _, content := range []string{"", first, "\twork/a/6/0\nx\t6/9\n"} {
		o, from, after := opened(), uint64(3), uint64(6)
		o.Cursor = 5
		d := &memoryDisk{content: []byte(content)}
		_, err := load(t, d, o, Options{From: &after})
		if skip, ok := errors.AsType[*client.SkipError](err); !ok || *skip != (client.SkipError{From: 6, Cursor: 5}) || string(d.content) != content {
			t.Fatalf("after the last reported entry: %v; the file has %q", err, d.content)
		}
		if f, err := load(t, d, o, Options{From: &from}); err != nil || f.Number() != 3 {
			t.Fatalf("%v, number %d", err, f.Number())
		}
		d.content = d.durable
		f := loaded(t, d, o)
		if err := f.Append(4, entries(4, 4), body); err != nil || f.Number() != 4 {
			t.Errorf("%v, number %d", err, f.Number())
		}
	}
}

// The last part of a batch, and the lines before it, are longer than the part that a load reads.
func TestALongFileIsReadFromItsEnd(t *testing.T) {
	line := strings.Repeat("x", maxLine-20)
	d := &memoryDisk{content: []byte(first)}
	for n := range uint64(2 * window / maxLine) {
		d.content = fmt.Appendf(d.content, "%s\t7/%d\n", line, n+1)
	}
	d.content = append(d.content, line...)
	size := len(d.content) - len(line)
	f := loaded(t, d, opened())
	if f.Number() != 2*window/maxLine || len(d.content) != size {
		t.Errorf("number %d, %d bytes", f.Number(), len(d.content))
	}
	d.content = append(d.content, make([]byte, window)...)
	if _, err := load(t, d, opened(), Options{}); err == nil {
		t.Error("a file without a whole line at its end was opened")
	}
}

func TestAFileIsOpenedByOneConsumerAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(t.Context(), path, opened(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Open(ctx, path, opened(), Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second consumer: %v", err)
		}
		second := make(chan error)
		go func() {
			f, err := Open(t.Context(), path, opened(), Options{})
			if err == nil {
				err = f.Close()
			}
			second <- err
		}()
		synctest.Wait() // it waits for the lock
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Errorf("after the first has closed it: %v", err)
		}
	})
}

func TestAFileThatMustExistIsNotMade(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "typo")
	if _, err := Open(t.Context(), path, opened(), Options{MustExist: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("there is %v, %v", list, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, opened(), Options{MustExist: true})
	if _, ok := errors.AsType[*DamagedError](err); !ok {
		t.Errorf("an empty file: %v", err)
	}
	if size, err := os.ReadFile(path); err != nil || len(size) != 0 {
		t.Errorf("the file has %q, %v", size, err)
	}
}
