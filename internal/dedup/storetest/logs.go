package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func logCases() []testCase {
	return []testCase{
		{name: "chunks of a commit are read as they were written", run: testAppend},
		{name: "chunks come in number order, from the one with the next entry to the last number", run: testLogRange},
		{name: "a commit that conflicts appends nothing", run: testAppendConflict},
		{name: "a commit that is refused appends nothing", run: testAppendRefused, when: func(h Harness) bool { return h.MaxRecord > 0 }},
		{name: "a commit that is repeated appends once", run: testAppendAgain},
		{name: "groups and incarnations do not see one another's chunks", run: testLogIsolation},
		{name: "a chunk is read until it expires", run: testChunkExpiry},
		{name: "a read stops after enough data or entries, and returns at least one chunk", run: testLogBytes},
		{name: "chunks of 300 KB come back", run: testLargeChunks},
		{name: "one commit appends as many chunks as may be", run: testAppendMany},
		{name: "one commit appends, holds and unholds", run: testAppendAndHold},
		{name: "commits of several groups append, but those that conflict", run: testAppendTogether},
		{name: "chunks are neither groups nor held messages", run: testChunksApart},
		{name: "chunks are copies", run: testChunkCopies},
		{name: "of many appends after one entry one wins, and a reader sees every entry once", run: testAppendRace},
		{name: "expire deletes expired chunks, up to the limit, and nothing else", run: withLister(testExpireChunks)},
		{name: "the end of a log is kept, and so are the chunks before it", run: testLogEnd},
		{name: "the end of a log is there after a restart", run: testRestartLogEnd, when: reopens},
		{name: "chunks are there after a restart", run: testRestartLog, when: reopens},
		{name: "a corrupt chunk is an error, never absent", run: testCorruptChunk, when: corrupts},
	}
}

// appending returns the change of a commit that appends chunks, which end at these numbers.
func appending(expires time.Time, ends ...uint64) func(c *record.Commit) {
	return func(c *record.Commit) {
		for _, last := range ends {
			appendData(c, expires, last, fmt.Appendf(nil, "entries to %d by %s", last, c.Attempt))
		}
	}
}

// appendData adds a chunk to a commit.
func appendData(c *record.Commit, expires time.Time, last uint64, data []byte) {
	g := &c.Next
	c.Append = append(c.Append, record.Chunk{
		Group: g.Key, Incarnation: g.Incarnation, First: g.Log.Last + 1, Last: last, Expires: expires, Data: data,
	})
	g.Log = record.Log{Last: last, Time: g.Log.Time + 1, Until: expires}
}

// whole returns the range of all chunks of a record.
func whole(g record.Group) record.LogRange {
	return record.LogRange{Group: g.Key, Incarnation: g.Incarnation, Last: g.Log.Last, MaxBytes: math.MaxInt}
}

func (s *suite) read(t *testing.T, r record.LogRange) []record.Chunk {
	t.Helper()
	l, ok := s.Store.(record.LogReader)
	if !ok {
		t.Fatal("the store can't read logs")
	}
	chunks, err := l.ReadLog(t.Context(), r)
	if err != nil {
		t.Fatalf("read log: %v", err)
	}
	return chunks
}

// append commits chunks that end at these numbers, and returns the record and all chunks.
func (s *suite) append(t *testing.T, loaded record.Group, ends ...uint64) (record.Group, []record.Chunk) {
	t.Helper()
	c := following(loaded, appending(s.clock.In(time.Hour), ends...))
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return c.Next, c.Append
}

func testAppend(t *testing.T, s *suite) {
	g, chunks := s.append(t, s.group(t, groupA()), 1, 3)
	same(t, "record", s.group(t, groupA()), g)
	same(t, "chunks", s.read(t, whole(g)), chunks)
	g, more := s.append(t, g, 4)
	same(t, "chunks of both commits", s.read(t, whole(g)), append(chunks, more...))
	g = s.commit(t, g, nil)
	same(t, "record after a commit without entries", s.group(t, groupA()), g)
	same(t, "chunks after a commit without entries", s.read(t, whole(g)), append(chunks, more...))

	empty := s.group(t, groupB())
	same(t, "log of no record", s.read(t, whole(empty)), []record.Chunk(nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Store.(record.LogReader).ReadLog(ctx, whole(g)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
}

func testLogRange(t *testing.T, s *suite) {
	ends := []uint64{1, 2, 9, 10, 99, 255, 256, 300, 1 << 40}
	g, chunks := s.group(t, groupA()), []record.Chunk(nil)
	for _, some := range [][]uint64{ends[:1], ends[1:4], ends[4:]} {
		var more []record.Chunk
		g, more = s.append(t, g, some...)
		chunks = append(chunks, more...)
	}
	for _, after := range []uint64{0, 1, 2, 8, 9, 10, 98, 99, 100, 254, 255, 256, 299, 300, 1<<40 - 1, 1 << 40, math.MaxUint64} {
		for _, end := range append(ends, 0) {
			r := whole(g)
			r.After, r.Last = after, end
			var want []record.Chunk
			for _, c := range chunks {
				if c.Last > after && c.Last <= end {
					want = append(want, c)
				}
			}
			same(t, fmt.Sprintf("after %d, to %d", after, end), s.read(t, r), want)
		}
	}
}

func testAppendConflict(t *testing.T, s *suite) {
	stale := s.group(t, groupA())
	for _, ends := range [][]uint64{{2}, {5}, {6}} {
		loaded := s.group(t, groupA())
		g, _ := s.append(t, loaded, ends...)
		for _, lost := range [][]uint64{{ends[0]}, {ends[0] - 1, ends[0] + 1}} {
			for _, old := range []record.Group{stale, loaded} {
				if err := s.Commit(t.Context(), following(old, appending(s.clock.In(2*time.Hour), lost...))); !errors.Is(err, record.ErrConflict) {
					t.Fatalf("got %v, want a conflict", err)
				}
			}
		}
		r := whole(g)
		r.Last += 10 // what a conflict left there would be read after the next commit
		chunks := s.read(t, r)
		same(t, "record", s.group(t, groupA()), g)
		checkLog(t, chunks, g.Log.Last)
	}
}

// checkLog checks that chunks are consecutive, begin at 1 and end at a number.
func checkLog(t *testing.T, chunks []record.Chunk, last uint64) {
	t.Helper()
	next := uint64(1)
	for _, c := range chunks {
		if c.First != next || c.Last < c.First {
			t.Errorf("a chunk of the entries %d to %d follows entry %d", c.First, c.Last, next-1)
		}
		next = c.Last + 1
	}
	if next != last+1 {
		t.Errorf("the last entry is %d, want %d", next-1, last)
	}
}

func testAppendRefused(t *testing.T, s *suite) {
	g, chunks := s.append(t, s.group(t, groupA()), 1)
	for name, change := range map[string]func(c *record.Commit){
		"chunk": func(c *record.Commit) { appendData(c, s.clock.In(time.Hour), 2, make([]byte, s.harness.MaxRecord)) },
		"state": func(c *record.Commit) {
			appending(s.clock.In(time.Hour), 2)(c)
			c.Next.State = make([]byte, s.harness.MaxRecord)
		},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, s.Commit(t.Context(), following(g, change)))
			r := whole(g)
			r.Last += 10
			same(t, "record", s.group(t, groupA()), g)
			same(t, "chunks", s.read(t, r), chunks)
		})
	}
}

func testAppendAgain(t *testing.T, s *suite) {
	g, chunks := s.append(t, s.group(t, groupA()), 2)
	c := following(g, appending(s.clock.In(time.Hour), 4, 5))
	for i := range 2 {
		if err := s.Commit(t.Context(), c); err != nil && (i == 0 || s.harness.RecognisesCommit || !errors.Is(err, record.ErrConflict)) {
			t.Fatal(err)
		}
	}
	same(t, "record", s.group(t, groupA()), c.Next)
	same(t, "chunks", s.read(t, whole(c.Next)), append(chunks, c.Append...))
}

func testLogIsolation(t *testing.T, s *suite) {
	keys := []record.GroupKey{{Stream: "a", Group: "b"}, {Stream: "a", Group: "bb"}, {Stream: "ab", Group: "b"}, {Stream: "a", Group: "b/b"}, {Stream: "a", Group: "ü"}}
	want := map[record.GroupKey][][]record.Chunk{}
	for _, incarnation := range []uint64{1000, 1001, 1 << 40} {
		for _, key := range keys {
			c := following(s.group(t, key), func(c *record.Commit) { c.Next.Incarnation = incarnation })
			appending(s.clock.In(time.Hour), incarnation%7+1, 300)(&c)
			c.Next.Expires = s.clock.In(time.Minute)
			if err := s.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			want[key] = append(want[key], c.Append)
		}
		s.clock.Advance(time.Minute)
	}
	for _, key := range keys {
		for _, chunks := range want[key] {
			r := record.LogRange{Group: key, Incarnation: chunks[0].Incarnation, Last: 1000, MaxBytes: math.MaxInt}
			same(t, "chunks", s.read(t, r), chunks)
			r.Incarnation += 2
			same(t, "chunks of no incarnation", s.read(t, r), []record.Chunk(nil))
		}
	}
}

func testLogBytes(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		for i := range 10 {
			appendData(c, s.clock.In(time.Hour), uint64(i+1), bytes.Repeat([]byte{byte(i)}, 1000))
		}
	})
	for _, c := range []struct{ bytes, want int }{{-1, 1}, {0, 1}, {1, 1}, {1000, 1}, {1001, 2}, {3000, 3}, {9999, 10}, {math.MaxInt, 10}} {
		r := whole(g)
		r.MaxBytes = c.bytes
		if chunks := s.read(t, r); len(chunks) != c.want {
			t.Errorf("a read of %d bytes returned %d chunks, want %d", c.bytes, len(chunks), c.want)
		}
	}
	g, _ = s.append(t, g, 20, 22)
	for _, c := range []struct{ after, entries, want int }{{0, 0, 12}, {0, 1, 1}, {0, 2, 2}, {9, 1, 1}, {9, 2, 2}, {9, 11, 2}, {9, 12, 3}, {12, 1, 1}, {12, 8, 1}, {12, 9, 2}, {12, 100, 2}} {
		r := whole(g)
		r.After, r.MaxEntries = uint64(c.after), c.entries
		if chunks := s.read(t, r); len(chunks) != c.want {
			t.Errorf("a read of %d entries after %d returned %d chunks, want %d", c.entries, c.after, len(chunks), c.want)
		}
	}
}

func testLargeChunks(t *testing.T, s *suite) {
	g := s.group(t, groupA())
	var chunks []record.Chunk
	for range 3 {
		c := following(g, func(c *record.Commit) {
			for i := range 4 {
				data := make([]byte, 300<<10)
				for at := range data {
					data[at] = byte(at*7 + i)
				}
				appendData(c, s.clock.In(time.Hour), c.Next.Log.Last+1, data)
			}
		})
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		g, chunks = c.Next, append(chunks, c.Append...)
	}
	same(t, "all", s.read(t, whole(g)), chunks)
	r := whole(g)
	r.After, r.MaxBytes = 2, 800<<10
	same(t, "800 KB", s.read(t, r), chunks[2:5])
}

func testAppendMany(t *testing.T, s *suite) {
	var ends []uint64
	for i := range record.MaxCommitItems {
		ends = append(ends, uint64(3*i+3))
	}
	g, chunks := s.append(t, s.group(t, groupA()), ends...)
	same(t, "chunks", s.read(t, whole(g)), chunks)
}

func testAppendAndHold(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), hold(fullHeld(2), fullHeld(3)))
	c := following(g, appending(s.clock.In(time.Hour), 2, 3))
	c.Hold, c.Unhold = []record.Held{fullHeld(4)}, []record.HeldKey{keyOf(fullHeld(2))}
	for i := range 2 {
		if err := s.Commit(t.Context(), c); err != nil && (i == 0 || s.harness.RecognisesCommit) {
			t.Fatal(err)
		}
	}
	same(t, "record", s.group(t, groupA()), c.Next)
	same(t, "chunks", s.read(t, whole(c.Next)), c.Append)
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{fullHeld(3), fullHeld(4)})
	stale := following(g, appending(s.clock.In(time.Hour), 1))
	stale.Hold = []record.Held{fullHeld(5)}
	if err := s.Commit(t.Context(), stale); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	same(t, "chunks after a conflict", s.read(t, whole(c.Next)), c.Append)
}

func testAppendTogether(t *testing.T, s *suite) {
	stale := s.group(t, groupB())
	g, chunks := s.append(t, stale, 1)
	var commits []record.Commit
	for _, loaded := range []record.Group{s.group(t, groupA()), stale, {Key: record.GroupKey{Stream: "orders", Group: "c"}}} {
		commits = append(commits, following(loaded, appending(s.clock.In(time.Hour), 2, 3)))
	}
	for i, err := range record.CommitAll(t.Context(), s.Store, commits) {
		next, want := commits[i].Next, commits[i].Append
		if i == 1 {
			next, want = g, chunks
			if !errors.Is(err, record.ErrConflict) {
				t.Errorf("got %v, want a conflict", err)
			}
		} else if err != nil {
			t.Error(err)
		}
		r := whole(next)
		r.Last += 10
		same(t, "record", s.group(t, next.Key), next)
		same(t, "chunks", s.read(t, r), want)
	}
}

func testChunksApart(t *testing.T, s *suite) {
	first := fullHeld(1)
	first.Message.Source, first.Message.Principal, first.Message.Epoch = "", "", 0
	g := s.commit(t, s.group(t, groupA()), hold(fullHeld(2), first))
	g, chunks := s.append(t, g, 1, 2, 3)
	same(t, "held", s.held(t, keyOf(fullHeld(0)), 100), []record.Held{fullHeld(2)})
	same(t, "held without a source", s.held(t, keyOf(first), 100), []record.Held{first})
	same(t, "chunks", s.read(t, whole(g)), chunks)
	l, ok := s.Store.(record.Lister)
	if !ok {
		return
	}
	if groups, tokens := listed(t, l); groups != 1 || tokens != 0 {
		t.Errorf("%d groups and %d tokens are listed, want one group", groups, tokens)
	}
}

func testChunkCopies(t *testing.T, s *suite) {
	c := following(s.group(t, groupA()), appending(s.clock.In(time.Hour), 1, 2))
	want := slices.Clone(c.Append)
	for i := range want {
		want[i].Data = bytes.Clone(want[i].Data)
	}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	scribble(&c.Append)
	r := record.LogRange{Group: groupA(), Incarnation: 1000, Last: 2, MaxBytes: math.MaxInt}
	read := s.read(t, r)
	same(t, "chunks", read, want)
	scribble(&read)
	same(t, "chunks after a change of those that were read", s.read(t, r), want)
}

// testAppendRace has several appenders, and readers that always read to the end of the record they
// loaded. Readers can load any number of times before an appender runs.
func testAppendRace(t *testing.T, s *suite) {
	const last = 60
	ctx, fail := context.WithCancel(t.Context())
	defer fail()
	won := race(t, 5, func(i int) (err error) {
		defer func() {
			if err != nil {
				fail() // ends the others too
			}
		}()
		var seen []record.Chunk
		for ctx.Err() == nil {
			groups, _, err := s.Load(ctx, []record.GroupKey{groupA()}, nil)
			if err != nil {
				return err
			}
			g := groups[0]
			if i < 2 {
				r := whole(g)
				if len(seen) > 0 {
					r.After = seen[len(seen)-1].Last
				}
				seen = append(seen, s.read(t, r)...)
				checkLog(t, seen, g.Log.Last)
			}
			if g.Log.Last >= last {
				return nil
			}
			if i >= 2 {
				err := s.Commit(ctx, following(g, appending(s.clock.In(time.Hour), g.Log.Last+1, g.Log.Last+uint64(i))))
				if err != nil && !errors.Is(err, record.ErrConflict) {
					return err
				}
			}
		}
		return ctx.Err()
	})
	if won != 5 {
		t.Error("an appender or a reader failed")
	}
}
