package filecursor

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/internal/files"
)

const (
	// part is how many bytes are written at a time. So a crash damages no more than that, and a
	// line, at the end of the file.
	part    = 4 << 20
	maxLine = 1 << 20
	window  = 2 * (part + maxLine)
	// maxFirst is longer than any first line.
	maxFirst = 8 << 10
)

// load finds the last whole line, and removes the bytes that a crash has left after it.
func (f *File) load() error {
	f.suffix = append(strconv.AppendUint([]byte{'\t'}, f.opened.Life, 10), '/')
	size, err := f.disk.Size()
	if err != nil {
		return err
	}
	first, err := f.read(0, min(size, maxFirst))
	if err != nil {
		return err
	}
	if f.unborn(first) {
		return f.create()
	}
	if err := f.check(first); err != nil {
		return err
	}
	from := max(0, size-window)
	tail, err := f.read(from, size-from)
	if err != nil {
		return err
	}
	whole := tail
	if i := bytes.IndexByte(whole, 0); i >= 0 { // pages that were not written before the crash
		whole = whole[:i]
	}
	whole = whole[:bytes.LastIndexByte(whole, '\n')+1]
	f.size = from + int64(len(whole))
	if err := f.last(whole, f.size < size); err != nil {
		return err
	}
	if f.size < size {
		if err := f.disk.Truncate(f.size); err != nil {
			return err
		}
	}
	// Lines of a process that was killed may not be durable yet.
	if err := f.sync(); err != nil {
		return err
	}
	return f.start()
}

func (f *File) read(at, n int64) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(io.NewSectionReader(f.disk, at, n), b)
	return b, err
}

// last reads the number from the last of some whole lines. torn says that something follows them.
func (f *File) last(lines []byte, torn bool) error {
	line := bytes.TrimSuffix(lines, []byte{'\n'})
	m, ok := parseMark(line[bytes.LastIndexByte(line, '\n')+1:])
	switch {
	case !ok:
		return &DamagedError{Path: f.path}
	case m.life > f.opened.Life:
		return fmt.Errorf("%s has a later life of the session: %w", f.path, client.Fenced)
	case m.life < f.opened.Life:
		return nil
	}
	if reported := f.reported(); torn && m.number < reported {
		return &DamagedError{Path: f.path, Number: m.number, Cursor: reported}
	}
	f.number = m.number
	return nil
}

// reported returns the last number that was reported as processed: the cursor, without the dead
// letters before it. Entries that a person has skipped are not in the file.
func (f *File) reported() uint64 {
	number := f.opened.Cursor
	for _, r := range slices.Backward(f.opened.Dead) {
		if r.From <= number && number <= r.To {
			number = r.From - 1
		}
	}
	return number
}

// start decides what follows in a file that has no number. The decision is written, so that it is
// needed once.
func (f *File) start() (err error) {
	before := f.number
	if f.number, err = f.opened.Start(before, f.options.From); err != nil || f.number == before {
		return err
	}
	f.buffer = f.end(f.buffer[:0], f.number)
	return f.flush()
}

// A mark is the end of a line. In the first line it begins with the session.
type mark struct {
	session      string
	life, number uint64
}

func parseMark(line []byte) (m mark, ok bool) {
	text := string(line[bytes.LastIndexByte(line, '\t')+1:])
	rest, number := cutLast(text)
	m.session, rest = cutLast(rest)
	var err1, err2 error
	m.life, err1 = strconv.ParseUint(rest, 10, 64)
	m.number, err2 = strconv.ParseUint(number, 10, 64)
	return m, err1 == nil && err2 == nil && len(text) < len(line)
}

// cutLast returns the parts of a text before and after its last slash.
func cutLast(text string) (before, after string) {
	if i := strings.LastIndexByte(text, '/'); i >= 0 {
		return text[:i], text[i+1:]
	}
	return "", text
}

// session returns the part of identities that is the same in all lives of the session.
func (f *File) session() string {
	id, _ := cutLast(f.opened.Identity(0))
	id, _ = cutLast(id)
	return id
}

// unborn reports whether a file is empty, or has only a part of its first line, after a crash.
func (f *File) unborn(first []byte) bool {
	text := string(bytes.TrimRight(first, "\x00"))
	head := "\t" + f.session() + "/"
	switch {
	case len(first) > len(head)+2*20+1: // two numbers and a slash
		return false
	case strings.HasPrefix(head, text):
		return true
	}
	rest, ok := strings.CutPrefix(text, head)
	return ok && strings.Trim(rest, "0123456789/") == ""
}

// check returns an error if a file does not begin with the first line of this session.
func (f *File) check(first []byte) error {
	line, _, found := bytes.Cut(first, []byte{'\n'})
	m, ok := parseMark(line)
	switch {
	case !found || !ok || line[0] != '\t' || m.session == "":
		return &DamagedError{Path: f.path}
	case m.session != f.session():
		return &DamagedError{Path: f.path, Session: m.session}
	}
	return nil
}

// create writes the first line. It is durable before any other line, so that a file whose first
// line is another one has foreign content.
func (f *File) create() error {
	number, err := f.opened.Start(0, f.options.From)
	if err != nil {
		return err
	}
	if f.options.MustExist {
		return &DamagedError{Path: f.path}
	}
	if err := f.disk.Truncate(0); err != nil {
		return err
	}
	f.buffer = append(append(append(f.buffer[:0], '\t'), f.opened.Identity(number)...), '\n')
	if err := f.flush(); err != nil {
		return err
	}
	f.number = number
	return files.SyncFolder(filepath.Dir(f.path))
}
