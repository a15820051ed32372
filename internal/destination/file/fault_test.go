package file

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// A faulty handle fails at the calls that its test chose.
type faulty struct {
	handle
	writeAt  func(handle, []byte, int64) (int, error)
	sync     func(handle) error
	truncate func(handle, int64) error
}

func (f *faulty) Truncate(size int64) error {
	if f.truncate != nil {
		return f.truncate(f.handle, size)
	}
	return f.handle.Truncate(size)
}

func (f *faulty) WriteAt(p []byte, at int64) (int, error) {
	if f.writeAt != nil {
		return f.writeAt(f.handle, p, at)
	}
	return f.handle.WriteAt(p, at)
}

func (f *faulty) Sync() error {
	if f.sync != nil {
		return f.sync(f.handle)
	}
	return f.handle.Sync()
}

// faults opens files that fail as its current fields say.
type faults struct {
	faulty
	opened int
}

func (f *faults) open(path string, flag int) (handle, error) {
	h, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	f.opened++
	return &faulty{
		handle: h,
		writeAt: func(h handle, p []byte, at int64) (int, error) {
			return (&faulty{handle: h, writeAt: f.writeAt}).WriteAt(p, at)
		},
		sync:     func(h handle) error { return (&faulty{handle: h, sync: f.sync}).Sync() },
		truncate: func(h handle, size int64) error { return (&faulty{handle: h, truncate: f.truncate}).Truncate(size) },
	}, nil
}

func TestATornWriteFailsTheRoundAndLeavesNothing(t *testing.T) {
	b := newBench(t)
	var f faults
	s := b.open(Options{open: f.open})
	b.send(s, named("a/1"))
	f.writeAt = func(h handle, p []byte, at int64) (int, error) {
		n, _ := h.WriteAt(p[:len(p)/2], at)
		return n, syscall.ENOSPC
	}
	errs := s.Send(t.Context(), []record.Delivery{named("a/1"), named("a/2"), named("a/2"), named("x")})
	failed := make([]bool, len(errs))
	for i, err := range errs {
		failed[i] = errors.Is(err, syscall.ENOSPC)
	}
	if !slices.Equal(failed, []bool{false, true, true, true}) {
		t.Errorf("got %v", errs)
	}
	b.want("a/1")
	f.writeAt = nil
	b.send(s, named("a/1"), named("a/2"), named("x"))
	b.want("a/1", "a/2", "x")
}

func TestAfterAFailedSyncTheFileIsReopenedAndTheLinesAreRewritten(t *testing.T) {
	b := newBench(t)
	var f faults
	s := b.open(Options{open: f.open})
	b.send(s, named("a/1"))
	opened, failures := f.opened, 1
	f.sync = func(h handle) error {
		if failures--; failures >= 0 {
			return syscall.EIO
		}
		return h.Sync()
	}
	if errs := s.Send(t.Context(), []record.Delivery{named("a/2")}); !errors.Is(errs[0], syscall.EIO) {
		t.Errorf("got %v", errs)
	}
	b.want("a/1")
	if f.opened != opened+1 {
		t.Errorf("opened %d times", f.opened-opened)
	}
	b.send(s, named("a/2"))
	b.want("a/1", "a/2")
}

func TestASenderRecoversWhenItsFileCouldNotBeOpened(t *testing.T) {
	b := newBench(t)
	var f faults
	broken := false
	s := b.open(Options{open: func(path string, flag int) (handle, error) {
		if broken {
			return nil, syscall.EMFILE
		}
		return f.open(path, flag)
	}})
	broken = true
	f.sync = func(handle) error { return syscall.EIO }
	for range 2 {
		if errs := s.Send(t.Context(), []record.Delivery{named("a/1")}); errs[0] == nil {
			t.Error("sent")
		}
	}
	broken, f.sync = false, nil
	b.send(s, named("a/1"))
	b.want("a/1")
}

// A crash in the middle of a write leaves the beginning of a line behind the recorded length.
func TestALineIsNotWrittenWhileTheRestOfATornOneCanNotBeCutOff(t *testing.T) {
	b := newBench(t)
	var f faults
	s := b.open(Options{open: f.open})
	b.send(s, named("a/1"))
	b.append(`{"stream":"torn","a line that is longer than the next one":"`)
	f.truncate = func(handle, int64) error { return syscall.EIO }
	if errs := s.Send(t.Context(), []record.Delivery{named("a/2")}); !errors.Is(errs[0], syscall.EIO) {
		t.Errorf("got %v, want the error of the cut", errs[0])
	}
	f.truncate = nil
	b.send(s, named("a/2"))
	b.want("a/1", "a/2")
}
