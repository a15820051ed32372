//go:build !unix

package presence

import "sync/atomic"

func (l *layer) allocate(words int) error {
	l.words = make([]atomic.Uint64, words)
	return nil
}

func (l *layer) has(hash uint64) bool {
	want := pattern(hash)
	return l.word(hash).Load()&want == want
}

func (l *layer) add(hash uint64) { l.word(hash).Or(pattern(hash)) }
