package storetest

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func testChunkExpiry(t *testing.T, s *suite) {
	g := s.group(t, groupA())
	var chunks []record.Chunk
	for i := range 3 {
		c := following(g, appending(s.clock.In(time.Duration(i+1)*time.Minute), g.Log.Last+2))
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		g, chunks = c.Next, append(chunks, c.Append...)
	}
	for i := range 4 {
		same(t, "at the expiry", s.read(t, whole(g)), chunks[i:])
		r := whole(g)
		r.MaxBytes = 0
		same(t, "one chunk at the expiry", s.read(t, r), chunks[i:min(i+1, len(chunks))])
		r.MaxBytes, r.MaxEntries = math.MaxInt, 4
		same(t, "four entries at the expiry", s.read(t, r), chunks[i:min(i+2, len(chunks))])
		s.clock.Advance(time.Minute - time.Millisecond)
		same(t, "just before the next", s.read(t, whole(g)), chunks[i:])
		s.clock.Advance(time.Millisecond)
	}
}

func testExpireChunks(t *testing.T, s *suite, l record.Lister) {
	keys := []record.GroupKey{groupA(), groupB(), {Stream: "orders", Group: "c"}}
	groups, chunks := make([]record.Group, len(keys)), make([][]record.Chunk, len(keys))
	for i, key := range keys {
		groups[i] = s.group(t, key)
		for n := range 4 { // in one, two … minutes for the first group, in two, four … for the second
			c := following(groups[i], appending(s.clock.In(time.Duration((i+1)*(n+1))*time.Minute), groups[i].Log.Last+1, groups[i].Log.Last+2))
			if err := s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			groups[i], chunks[i] = c.Next, append(chunks[i], c.Append...)
		}
	}
	for _, c := range []struct {
		advance time.Duration
		limit   int
		want    int
	}{{time.Minute - time.Millisecond, 100, 0}, {time.Millisecond, 0, 0}, {0, 1, 1}, {0, 100, 1}, {time.Minute, 3, 3}, {0, 3, 1}, {time.Minute, 100, 4}, {0, 100, 0}} {
		s.clock.Advance(c.advance)
		if n, err := l.Expire(t.Context(), c.limit); n != c.want || err != nil {
			t.Errorf("expired %d, %v; want %d", n, err, c.want)
		}
	}
	for i, g := range groups { // three minutes later
		same(t, "group", s.group(t, g.Key), g)
		same(t, "chunks", s.read(t, whole(g)), chunks[i][2*(3/(i+1)):])
	}
}

func testRestartLog(t *testing.T, s *suite) {
	g, chunks := s.append(t, s.group(t, groupA()), 2, 7)
	s.Store = s.harness.Reopen(t, s.Store)
	same(t, "record", s.group(t, groupA()), g)
	same(t, "chunks", s.read(t, whole(g)), chunks)
	g, more := s.append(t, g, 8)
	s.Store = s.harness.Reopen(t, s.Store)
	same(t, "chunks after another restart", s.read(t, whole(g)), append(chunks, more...))
}

// end commits two chunks of which the second one ends the log.
func (s *suite) end(t *testing.T, loaded record.Group) (record.Group, []record.Chunk) {
	t.Helper()
	c := following(loaded, appending(s.clock.In(time.Hour), loaded.Log.Last+2, loaded.Log.Last+3))
	c.Next.Log.Ended = true
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return c.Next, c.Append
}

func testLogEnd(t *testing.T, s *suite) {
	open, chunks := s.append(t, s.group(t, groupA()), 1, 3)
	g, more := s.end(t, open)
	chunks = append(chunks, more...)
	same(t, "record", s.group(t, groupA()), g)
	same(t, "chunks", s.read(t, whole(g)), chunks)
	if err := s.Commit(t.Context(), following(open, appending(s.clock.In(time.Hour), 4))); !errors.Is(err, record.ErrConflict) {
		t.Errorf("an append after the entries before the end: got %v, want a conflict", err)
	}
	same(t, "record after a conflict", s.group(t, groupA()), g)
	g = s.commit(t, g, func(c *record.Commit) { c.Next.State = []byte("after the end") })
	same(t, "record after a commit without entries", s.group(t, groupA()), g)
	same(t, "chunks after a commit without entries", s.read(t, whole(g)), chunks)
	other, _ := s.append(t, s.group(t, groupB()), 1)
	same(t, "record of another group", s.group(t, groupB()), other)
}

func testRestartLogEnd(t *testing.T, s *suite) {
	g, chunks := s.end(t, s.group(t, groupA()))
	s.Store = s.harness.Reopen(t, s.Store)
	same(t, "record", s.group(t, groupA()), g)
	same(t, "chunks", s.read(t, whole(g)), chunks)
}

func testCorruptChunk(t *testing.T, s *suite) {
	g, chunks := s.append(t, s.group(t, groupA()), 1, 2, 3)
	s.harness.Corrupt(t, s.Store, chunks[1])
	_, err := s.Store.(record.LogReader).ReadLog(t.Context(), whole(g))
	wantCorrupt(t, "read log", err)
	r := whole(g)
	r.After = 2
	same(t, "chunks after it", s.read(t, r), chunks[2:])
}
