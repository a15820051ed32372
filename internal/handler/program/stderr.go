package program

import (
	"bytes"
	"io"
	"sync"

	"github.com/effectively-once/once/internal/record"
)

// maxLine is how much of a line is kept, in bytes.
const maxLine = 500

// A stderr passes the standard error of a program on, and keeps its last line that is not blank.
type stderr struct {
	to io.Writer

	mu      sync.Mutex
	last    []byte // the last whole line
	partial []byte // the beginning of the line that has not ended
}

// Write implements [io.Writer].
func (s *stderr) Write(text []byte) (int, error) {
	s.keep(text)
	return s.to.Write(text)
}

func (s *stderr) keep(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		s.partial = append(s.partial, line[:min(len(line), maxLine-len(s.partial))]...)
		if ended {
			if len(bytes.TrimSpace(s.partial)) > 0 {
				s.last = append(s.last[:0], s.partial...)
			}
			s.partial = s.partial[:0]
		}
		text = rest
	}
}

// lastLine returns the last line without control characters, or "".
func (s *stderr) lastLine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := bytes.TrimSpace(s.partial)
	if len(line) == 0 {
		line = bytes.TrimSpace(s.last)
	}
	return record.RejectText(string(line))
}
