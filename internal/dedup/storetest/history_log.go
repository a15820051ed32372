package storetest

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A chunkList is a list of chunks as text, so that a state can be compared: for each chunk its
// incarnation, its first and last number, and the attempt that wrote it, with "end" if its last
// entry ends the log.
type chunkList string

func (l chunkList) with(c record.Chunk) chunkList {
	return l + chunkList(fmt.Sprintf("%d %d-%d by %s\n", c.Incarnation, c.First, c.Last, c.Data))
}

// of returns the chunks of a range, in the order in which they were written.
func (l chunkList) of(r record.LogRange) chunkList {
	var out strings.Builder
	for line := range strings.Lines(string(l)) {
		incarnation, rest, _ := strings.Cut(line, " ")
		_, rest, _ = strings.Cut(rest, "-")
		end, _, _ := strings.Cut(rest, " ")
		last, _ := strconv.ParseUint(end, 10, 64)
		if incarnation == strconv.FormatUint(r.Incarnation, 10) && last > r.After && last <= r.Last {
			out.WriteString(line)
		}
	}
	return chunkList(out.String())
}

// appends returns one or two chunks after the log of a record, and adds their entries to the log of
// the record. The last entry may end the log.
func (c *caller) appends(next *record.Group, attempt uint64) (chunks []record.Chunk, list chunkList) {
	ends := c.oneIn(6)
	for n := c.rnd.IntN(2); n >= 0; n-- {
		chunk := record.Chunk{
			Group: next.Key, Incarnation: next.Incarnation, First: next.Log.Last + 1, Last: next.Log.Last + 1 + c.rnd.Uint64N(3),
			Expires: c.clock.In(time.Hour), Data: fmt.Append(nil, attempt),
		}
		if ends && n == 0 {
			chunk.Data = append(chunk.Data, " end"...)
		}
		next.Log = record.Log{Last: chunk.Last, Time: next.Log.Time + 1, Ended: ends && n == 0, Until: chunk.Expires}
		chunks, list = append(chunks, chunk), list.with(chunk)
	}
	return chunks, list
}

// readLog reads a part of the log of the record that the caller last saw, which may be stale. A
// caller saw what it loaded, and what it committed with success.
func (c *caller) readLog() {
	i := c.rnd.IntN(historyKeys)
	o, g := c.round.groups[i], c.groups[i]
	from := record.LogRange{Group: g.Key, Incarnation: g.Incarnation, Last: g.Log.Last, MaxBytes: math.MaxInt}
	if c.oneIn(2) {
		from.After = c.rnd.Uint64N(g.Log.Last + 1)
	}
	var chunks []record.Chunk
	a := c.make(func(ctx context.Context) (err error) {
		chunks, err = c.Store.(record.LogReader).ReadLog(ctx, from)
		return err
	})
	if a.lost {
		return
	}
	var out groupAnswer
	for _, chunk := range chunks {
		out.chunks = out.chunks.with(chunk)
	}
	c.log.Add(o.Object, c.number, groupCall{do: "read", from: from}, out, a.began, a.ended)
}
