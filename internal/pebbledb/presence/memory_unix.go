//go:build unix

package presence

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// allocate allocates the words outside of the heap. On the heap they would be most of the live
// data, and the garbage collector lets a heap grow in proportion to its live data.
func (l *layer) allocate(words int) error {
	memory, err := syscall.Mmap(-1, 0, 8*words, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return err
	}
	l.words = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(memory))), words) //nolint:gosec // aligned to a page
	runtime.AddCleanup(l, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	return nil
}

func (l *layer) has(hash uint64) bool {
	want := pattern(hash)
	found := l.word(hash).Load()&want == want
	runtime.KeepAlive(l) // until the memory has been read
	return found
}

func (l *layer) add(hash uint64) {
	l.word(hash).Or(pattern(hash))
	runtime.KeepAlive(l)
}
