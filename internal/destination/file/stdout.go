package file

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/effectively-once/once/internal/record"
)

// Stdout writes the same lines to a stream that can't be truncated, such as standard output: at
// least once. A delivery is repeated if the process crashes after its line, before the store knows
// of it.
type Stdout struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

var _ record.Sender = (*Stdout)(nil)

// NewStdout returns a sender that writes to w. It writes the lines of one Send in one call, and
// calls of w never overlap.
func NewStdout(w io.Writer) *Stdout { return &Stdout{w: w} }

// Send writes the deliveries. After an error all of them count as not written.
func (s *Stdout) Send(_ context.Context, deliveries []record.Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = s.buf[:0]
	for i := range deliveries {
		s.buf = appendLine(s.buf, &deliveries[i])
	}
	_, err := s.w.Write(s.buf)
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
	if err != nil {
		err = fmt.Errorf("write to standard output: %w", err)
	}
	return all(len(deliveries), err)
}
