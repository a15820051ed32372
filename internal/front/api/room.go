package api

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/front/problem"
)

const (
	// maxReceived is how many bytes of batches, as they are sent, are in memory at a time.
	maxReceived = 32 * batch.MaxBytes
	// maxProcessed is how many bytes of batches, without their compression, are processed at a
	// time. A batch that is processed needs several times its content, and a few kilobytes can be
	// compressed from a content of 4 MB.
	maxProcessed = 8 * batch.MaxBytes
	// roomWait is how long a batch waits until others are processed.
	roomWait = 10 * time.Second
	// firstRead is how much is allocated for a batch or a body before any of it is read.
	firstRead = 256 << 10
)

// A room bounds the memory that batches and large messages need together. A caller occupies it with bytes that it has
// sent, not with those that it announces, so slow callers keep none of the others out.
type room struct{ received, processed *semaphore.Weighted }

func newRoom() *room {
	return &room{semaphore.NewWeighted(maxReceived), semaphore.NewWeighted(maxProcessed)}
}

// read reads a body of at most [batch.MaxBytes]. length is its announced length, or negative. The
// memory counts until leave is called; the caller calls it after an error, too.
func (r *room) read(body io.Reader, length int64) (data []byte, leave func(), err error) {
	held := int64(0)
	leave = func() { r.received.Release(held) }
	for size := min(max(length, 0), firstRead) + 1; ; size = min(max(2*size, firstRead), batch.MaxBytes+1) {
		if !r.received.TryAcquire(size - held) {
			return nil, leave, noRoom()
		}
		held = size
		data = append(make([]byte, 0, size), data...)
		for len(data) < cap(data) {
			n, err := body.Read(data[len(data):cap(data)])
			data = data[:len(data)+n]
			if errors.Is(err, io.EOF) {
				return data, leave, nil
			}
			if err != nil {
				return nil, leave, err
			}
		}
	}
}

// A share is the room that the content of a batch takes.
type share struct {
	room *room
	size int64
}

// process waits until there is room for the content of a batch, which counts until leave is called.
func (r *room) process(ctx context.Context, size int) (*share, error) {
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	if r.processed.Acquire(ctx, int64(size)) != nil {
		return nil, noRoom()
	}
	return &share{r, int64(size)}, nil
}

// body waits until there is room for the body of one message, which counts until leave is called. A
// small one does not wait and does not count.
func (r *room) body(ctx context.Context, size int) (leave func(), err error) {
	if size <= firstRead {
		return func() {}, nil
	}
	share, err := r.process(ctx, size)
	if err != nil {
		return nil, err
	}
	return share.leave, nil
}

// shrink gives back what is more than a size.
func (s *share) shrink(size int) {
	if n := s.size - int64(size); n > 0 {
		s.size -= n
		s.room.processed.Release(n)
	}
}

func (s *share) leave() { s.room.processed.Release(s.size) }

func noRoom() error {
	return problem.New(problem.RateLimited, "Too many batches or large messages are processed at the moment, and nothing of this one was accepted. Send it again under the same keys.")
}
