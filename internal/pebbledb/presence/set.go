package presence

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// bitsPerKey is the number of bits for a key in a full layer. Then a layer has about 2 % false
// positives.
const bitsPerKey = 10

// A size limits a set.
type size struct {
	first int // 64-bit words in the first layer, a power of two; each further layer is twice as large
	most  int // layers
}

// defaultSize returns the size of a set with layers of 1, 2, 4, 8 and 16 MB.
func defaultSize() size { return size{first: 1 << 17, most: 5} }

// A set is a Bloom filter that grows. It has no false negatives, and nothing can be removed from
// it. Its methods can be called concurrently.
//
// It consists of layers, of which only the last one is added to ("Scalable Bloom Filters", Almeida
// et al. 2007). A layer is an array of words. A key sets four bits of one word, so that adding a
// key is one atomic operation ("Cache-, Hash- and Space-Efficient Bloom Filters", Putze et al.
// 2009; "Performance-Optimal Filtering", Lang et al. 2019).
type set struct {
	size   size
	layers atomic.Pointer[[]*layer]
	growth sync.Mutex
}

type layer struct {
	words []atomic.Uint64 // their number is a power of two
	keys  atomic.Int64
}

func newSet(limit size) (*set, error) {
	s := &set{size: limit}
	first, err := newLayer(limit.first)
	if err == nil {
		s.layers.Store(&[]*layer{first})
	}
	return s, err
}

// has reports whether the key with this hash may have been added.
func (s *set) has(hash uint64) bool { return anyHas(*s.layers.Load(), hash) }

func anyHas(layers []*layer, hash uint64) bool {
	for _, l := range layers {
		if l.has(hash) {
			return true
		}
	}
	return false
}

// add adds the key with this hash. When it returns, has reports true, and will do so forever.
func (s *set) add(hash uint64) {
	layers := *s.layers.Load()
	if anyHas(layers, hash) {
		return
	}
	last := layers[len(layers)-1]
	last.add(hash)
	if last.keys.Add(1) == last.capacity() {
		s.grow(layers)
	}
}

// grow adds a layer after the given ones. If the set may not grow, or there is no memory, the last
// layer takes more keys, and has more false positives.
func (s *set) grow(layers []*layer) {
	s.growth.Lock()
	defer s.growth.Unlock()
	if len(layers) == s.size.most || len(layers) != len(*s.layers.Load()) {
		return
	}
	next, err := newLayer(2 * len(layers[len(layers)-1].words))
	if err != nil {
		return
	}
	grown := append(slices.Clip(layers), next)
	s.layers.Store(&grown)
}

func keysOf(layers []*layer) (n int64) {
	for _, l := range layers {
		n += l.keys.Load()
	}
	return n
}

func newLayer(words int) (*layer, error) {
	l := &layer{}
	return l, l.allocate(words)
}

func (l *layer) capacity() int64 { return int64(len(l.words)) * 64 / bitsPerKey }

// word returns the word of a hash, chosen by its highest bits.
func (l *layer) word(hash uint64) *atomic.Uint64 {
	return &l.words[hash>>(65-bits.Len(uint(len(l.words))))]
}

// pattern returns the bits of a hash in its word, chosen by its lowest bits.
func pattern(hash uint64) uint64 {
	return 1<<(hash&63) | 1<<(hash>>6&63) | 1<<(hash>>12&63) | 1<<(hash>>18&63)
}
