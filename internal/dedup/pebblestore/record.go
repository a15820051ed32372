package pebblestore

import (
	"cmp"
	"slices"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// The fields of groups, chunks and tokens. The fields of their parts are in package encoding, with
// the rules for all of them.

func group(f *encoding.Fields, g *record.Group) {
	f.Bytes(1, &g.State)
	f.Pending(2, &g.Pending)
	f.Uint(3, &g.Last)
	f.Sources(4, &g.Sources)
	f.UintMap(5, &g.Chained)
	f.Retention(6, &g.Retention)
	f.Log(7, &g.Log)
	f.Timers(8, &g.Timers)
}

func writeGroup(e *encoding.Encoder, g *record.Group) {
	f := encoding.Writing(e)
	group(&f, g)
}

func readGroup(d *encoding.Decoder, g *record.Group) {
	f := encoding.Reading(d)
	group(&f, g)
	f.End()
	if !slices.IsSortedFunc(g.Pending, func(a, b record.Pending) int { return cmp.Compare(a.Number, b.Number) }) {
		d.Fail("pending entries out of order")
	}
}

func chunk(f *encoding.Fields, c *record.Chunk) {
	f.Uint(1, &c.First)
	f.Bytes(2, &c.Data)
}

func writeChunk(e *encoding.Encoder, c *record.Chunk) {
	f := encoding.Writing(e)
	chunk(&f, c)
}

func readChunk(d *encoding.Decoder, c *record.Chunk) {
	f := encoding.Reading(d)
	chunk(&f, c)
	f.End()
	if c.First == 0 || c.First > c.Last {
		d.Fail("a chunk from entry %d to %d", c.First, c.Last)
	}
}

func token(f *encoding.Fields, t *record.Token, state *uint64) {
	f.Uint(1, state)
	f.Hash(2, (*[32]byte)(&t.Fingerprint))
	f.Text(3, &t.Stream)
	f.Text(4, &t.Group)
	f.Text(5, &t.Owner)
	f.Uint(6, &t.Epoch)
	f.Time(7, &t.Lease)
	f.Reply(8, &t.Reply)
	f.Text(9, (*string)(&t.Reason))
	f.Message(10, &t.Request)
	f.Text(11, &t.Detail)
}

func writeToken(e *encoding.Encoder, t *record.Token) {
	f, state := encoding.Writing(e), uint64(t.State)
	token(&f, t, &state)
}

func readToken(d *encoding.Decoder, t *record.Token) {
	f, state := encoding.Reading(d), uint64(0)
	token(&f, t, &state)
	f.End()
	if state == uint64(record.Absent) || state > uint64(record.Done) {
		d.Fail("a token with state %d", state)
		state = uint64(record.Absent)
	}
	t.State = record.TokenState(state)
}
