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
	encoding.Items(f, 2, &g.Pending, encoding.WritePending, encoding.ReadPending)
	encoding.Uint(f, 3, &g.Last)
	encoding.Entries(f, 4, &g.Sources, encoding.WriteSource, encoding.ReadSource)
	f.UintMap(5, &g.Chained)
	encoding.Int(f, 6, &g.Retention)
	encoding.Embedded(f, 7, &g.Log, g.Log.Last != 0, encoding.WriteLog, encoding.ReadLog)
	encoding.Entries(f, 8, &g.Timers, encoding.WriteTimer, encoding.ReadTimer)
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
	encoding.Uint(f, 1, &c.First)
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

func token(f *encoding.Fields, t *record.Token) {
	encoding.Uint(f, 1, &t.State)
	f.Hash(2, (*[32]byte)(&t.Fingerprint))
	f.Text(3, &t.Stream)
	f.Text(4, &t.Group)
	f.Text(5, &t.Owner)
	encoding.Uint(f, 6, &t.Epoch)
	f.Time(7, &t.Lease)
	f.Reply(8, &t.Reply)
	f.Text(9, (*string)(&t.Reason))
	encoding.Part(f, 10, &t.Request, encoding.WriteMessage, encoding.ReadMessage)
	f.Text(11, &t.Detail)
}

func writeToken(e *encoding.Encoder, t *record.Token) {
	f := encoding.Writing(e)
	token(&f, t)
}

func readToken(d *encoding.Decoder, t *record.Token) {
	f := encoding.Reading(d)
	token(&f, t)
	f.End()
	if t.State == record.Absent || t.State > record.Done {
		d.Fail("a token with state %d", t.State)
	}
}
