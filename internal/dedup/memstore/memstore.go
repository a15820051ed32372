// Package memstore keeps groups, held messages and tokens in memory. It is the reference model of
// the store port, and the store of tests.
package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A Store is a record.Store and a record.Lister in memory. One mutex makes every call atomic;
// nothing survives the process.
type Store struct {
	now    func() time.Time
	shares bool

	mu     sync.Mutex
	groups map[record.GroupKey]record.Group
	helds  map[record.HeldKey]record.Held
	tokens map[record.TokenKey]record.Token
	chunks map[record.GroupKey][]record.Chunk // in the order of the commits
}

var (
	_ record.Store         = (*Store)(nil)
	_ record.DoneCommitter = (*Store)(nil)
	_ record.Lister        = (*Store)(nil)
	_ record.LogReader     = (*Store)(nil)
)

// New returns an empty store that uses now to decide expiry.
func New(now func() time.Time) *Store {
	return &Store{
		now:    now,
		groups: make(map[record.GroupKey]record.Group),
		helds:  make(map[record.HeldKey]record.Held),
		tokens: make(map[record.TokenKey]record.Token),
		chunks: make(map[record.GroupKey][]record.Chunk),
	}
}

// NewShared returns an empty store whose results share memory with it, which makes reads of large
// records fast. A caller must not change the groups, held messages and chunks that it gets; the
// engine and the publisher change only copies, made by [record.Group.Clone]. Arguments are copied
// as ever.
func NewShared(now func() time.Time) *Store {
	s := New(now)
	s.shares = true
	return s
}

// Copy returns a store with the present content, as a backup would be.
func (s *Store) Copy() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := New(s.now)
	out.shares = s.shares
	for key, g := range s.groups {
		out.groups[key] = cloneGroup(g)
	}
	for key, h := range s.helds {
		out.helds[key] = cloneHeld(h)
	}
	for key, list := range s.chunks {
		out.chunks[key] = slices.Clone(list) // a chunk that is stored is never changed
	}
	maps.Copy(out.tokens, s.tokens)
	return out
}

// result returns a group for a caller.
func (s *Store) result(g record.Group) record.Group {
	if s.shares {
		g.Pending = slices.Clip(g.Pending)
		return g
	}
	return cloneGroup(g)
}

// resultHeld returns a held message for a caller.
func (s *Store) resultHeld(h record.Held) record.Held {
	if s.shares {
		return h
	}
	return cloneHeld(h)
}

// Load implements record.Store.
func (s *Store) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("load: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gs := make([]record.Group, len(groups))
	for i, key := range groups {
		gs[i] = s.result(s.group(key))
	}
	ts := make([]record.Token, len(tokens))
	for i, key := range tokens {
		ts[i] = cloneToken(s.token(key))
	}
	return gs, ts, nil
}

// Commit implements record.Store. It does not recognise its own write, because nothing between the
// caller and this store retries.
func (s *Store) Commit(ctx context.Context, c record.Commit) error {
	key := c.Next.Key
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit group %s: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.group(key)
	if stored.Version != c.Loaded.Version || stored.Incarnation != c.Loaded.Incarnation && stored.Version != 0 {
		return fmt.Errorf("commit group %s: %w", key, record.ErrConflict)
	}
	next := cloneFields(c.Next)
	next.Pending = carry(c, stored.Pending)
	s.groups[key] = next
	for _, h := range c.Hold {
		s.helds[heldKey(h.Message)] = cloneHeld(h)
	}
	for _, k := range c.Unhold {
		delete(s.helds, k)
	}
	s.putTokens(c.Done)
	for _, chunk := range c.Append {
		chunk.Data = bytes.Clone(chunk.Data)
		s.chunks[key] = append(s.chunks[key], chunk)
	}
	return nil
}

// ReadLog implements record.LogReader.
func (s *Store) ReadLog(ctx context.Context, r record.LogRange) ([]record.Chunk, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read log of group %s: %w", r.Group, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []record.Chunk
	size := 0
	for _, chunk := range s.chunks[r.Group] {
		if chunk.Incarnation != r.Incarnation || chunk.Last <= r.After || chunk.Last > r.Last || s.expired(chunk.Expires) {
			continue
		}
		if r.Enough(out, size) {
			break
		}
		size += len(chunk.Data)
		if !s.shares {
			chunk.Data = bytes.Clone(chunk.Data)
		}
		out = append(out, chunk)
	}
	return out, nil
}

// CommitsDone implements record.DoneCommitter.
func (s *Store) CommitsDone() bool { return true }

// carry returns the pending entries to write, with copies of new ones. Loaded entries are taken in
// their stored form, because a Clear, which does not change the version, may have removed or marked
// them since.
func carry(c record.Commit, stored []record.Pending) []record.Pending {
	out := slices.Grow([]record.Pending(nil), len(c.Next.Pending))
	for _, p := range c.Next.Pending {
		if index(c.Loaded.Pending, p.Number) >= 0 {
			i := index(stored, p.Number)
			if i < 0 {
				continue
			}
			out = append(out, stored[i])
			continue
		}
		out = append(out, clonePending(p))
	}
	return out
}

// index returns the index of the entry with a number, or -1. Entries are in the order of their
// numbers.
func index(pending []record.Pending, number uint64) int {
	i, ok := slices.BinarySearchFunc(pending, number, func(p record.Pending, n uint64) int { return cmp.Compare(p.Number, n) })
	if !ok {
		return -1
	}
	return i
}

// Clear implements record.Store.
func (s *Store) Clear(ctx context.Context, c record.Clear) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("clear group %s: %w", c.Group, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(c.Group)
	if g.Version == 0 || g.Incarnation != c.Incarnation {
		return nil
	}
	// the stored entries stay as they are: a snapshot or a result may share them
	g.Pending = slices.DeleteFunc(slices.Clone(g.Pending), func(p record.Pending) bool { return slices.Contains(c.Numbers, p.Number) })
	for _, done := range c.Done {
		if i := index(g.Pending, done.Number); i >= 0 && !g.Pending[i].Kept() {
			g.Pending[i] = clonePending(done)
		}
	}
	for i := range g.Pending {
		p := &g.Pending[i]
		for _, sent := range c.Sent[p.Number] {
			if !p.Kept() && !slices.Contains(p.Sent, sent) {
				p.Sent = append(slices.Clip(p.Sent), sent)
			}
		}
	}
	_ = g.Expire(c.Now)
	s.groups[c.Group] = g
	return nil
}

// Held implements record.Store.
func (s *Store) Held(ctx context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read held messages of group %s: %w", from.Group, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []record.Held
	for k := from; len(out) < limit; k.Sequence++ { // usually there are enough without a gap
		h, ok := s.helds[k]
		if !ok {
			return s.heldFrom(from, limit), nil
		}
		out = append(out, s.resultHeld(h))
	}
	return out, nil
}

// heldFrom looks at every held message.
func (s *Store) heldFrom(from record.HeldKey, limit int) []record.Held {
	var out []record.Held
	for k, h := range s.helds {
		if k.Group == from.Group && k.Source == from.Source && k.Epoch == from.Epoch && k.Sequence >= from.Sequence {
			out = append(out, s.resultHeld(h))
		}
	}
	slices.SortFunc(out, func(a, b record.Held) int { return cmp.Compare(a.Message.Sequence, b.Message.Sequence) })
	return out[:min(len(out), limit)]
}

// SwapToken implements record.Store. A next token that is Absent deletes the record.
func (s *Store) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if err := ctx.Err(); err != nil {
		return record.Token{}, fmt.Errorf("swap token %s: %w", next.Key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.token(next.Key)
	switch {
	case same(stored, old):
		s.tokens[next.Key] = cloneToken(next)
		if next.State == record.Absent {
			delete(s.tokens, next.Key)
		}
	case !same(stored, next):
		return cloneToken(stored), fmt.Errorf("swap token %s: %w", next.Key, record.ErrConflict)
	}
	return cloneToken(next), nil
}

// same reports whether two tokens are equal in the fields that the condition of SwapToken compares.
func same(a, b record.Token) bool {
	if a.State == record.Absent {
		return b.State == record.Absent
	}
	return a.State == b.State && a.Owner == b.Owner && a.Epoch == b.Epoch
}

// MarkDone implements record.Store.
func (s *Store) MarkDone(ctx context.Context, tokens []record.Token) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mark tokens done: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putTokens(tokens)
	return nil
}

func (s *Store) putTokens(tokens []record.Token) {
	for _, t := range tokens {
		s.tokens[t.Key] = cloneToken(t)
	}
}

// group returns the stored record, or one of version 0. The caller must hold the mutex and must not
// change the result.
func (s *Store) group(key record.GroupKey) record.Group {
	g, ok := s.groups[key]
	if !ok || s.expired(g.Expires) {
		return record.Group{Key: key}
	}
	return g
}

// token returns the stored record, or an absent one, with the same rules as group.
func (s *Store) token(key record.TokenKey) record.Token {
	t, ok := s.tokens[key]
	if !ok || s.expired(t.Expires) {
		return record.Token{Key: key}
	}
	return t
}

func (s *Store) expired(at time.Time) bool { return !at.IsZero() && !at.After(s.now()) }

func heldKey(m record.Message) record.HeldKey {
	return record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}
}
