package pebblestore

import (
	"cmp"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// The fields of groups, chunks and tokens. The fields of their parts are in package encoding, with
// the rules for all of them.

func writeGroup(e *encoding.Encoder, g *record.Group) {
	at := e.Object()
	e.BytesField(at, 1, g.State)
	encoding.ListField(e, at, 2, g.Pending, encoding.WritePending)
	e.UintField(at, 3, g.Last)
	encoding.MapField(e, at, 4, g.Sources, encoding.WriteSource)
	encoding.MapField(e, at, 5, g.Chained, encoding.WriteUint)
	e.IntField(at, 6, int64(g.Retention))
	if g.Log.Last != 0 {
		e.Field(at, 7)
		encoding.WriteLog(e, &g.Log)
	}
	encoding.MapField(e, at, 8, g.Timers, encoding.WriteTimer)
}

func readGroup(d *encoding.Decoder, g *record.Group) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			g.State = d.Bytes()
		case 2:
			g.Pending = encoding.ListOf(d, encoding.ReadPending)
		case 3:
			g.Last = d.Uint()
		case 4:
			g.Sources = encoding.MapOf(d, encoding.ReadSource)
		case 5:
			g.Chained = encoding.MapOf(d, (*encoding.Decoder).Uint)
		case 6:
			g.Retention = time.Duration(d.Int())
		case 7:
			encoding.ReadLog(d, &g.Log)
		case 8:
			g.Timers = encoding.MapOf(d, encoding.ReadTimer)
		default:
			return false
		}
		return true
	})
	if !slices.IsSortedFunc(g.Pending, func(a, b record.Pending) int { return cmp.Compare(a.Number, b.Number) }) {
		d.Fail("pending entries out of order")
	}
}

func writeChunk(e *encoding.Encoder, c *record.Chunk) {
	at := e.Object()
	e.UintField(at, 1, c.First)
	e.BytesField(at, 2, c.Data)
}

func readChunk(d *encoding.Decoder, c *record.Chunk) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			c.First = d.Uint()
		case 2:
			c.Data = d.Bytes()
		default:
			return false
		}
		return true
	})
	if c.First == 0 || c.First > c.Last {
		d.Fail("a chunk from entry %d to %d", c.First, c.Last)
	}
}

func writeToken(e *encoding.Encoder, t *record.Token) {
	at := e.Object()
	e.UintField(at, 1, uint64(t.State))
	e.HashField(at, 2, (*[32]byte)(&t.Fingerprint))
	e.TextField(at, 3, t.Stream)
	e.TextField(at, 4, t.Group)
	e.TextField(at, 5, t.Owner)
	e.UintField(at, 6, t.Epoch)
	e.IntField(at, 7, encoding.Micros(t.Lease))
	if t.Reply != nil {
		e.Field(at, 8)
		encoding.WriteReply(e, t.Reply)
	}
	e.TextField(at, 9, string(t.Reason))
	if t.Request != nil {
		e.Field(at, 10)
		encoding.WriteMessage(e, t.Request)
	}
	e.TextField(at, 11, t.Detail)
}

func readToken(d *encoding.Decoder, t *record.Token) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			t.State = readState(d)
		case 2:
			d.Hash((*[32]byte)(&t.Fingerprint))
		case 3:
			t.Stream = d.Text()
		case 4:
			t.Group = d.Text()
		case 5:
			t.Owner = d.Text()
		case 6:
			t.Epoch = d.Uint()
		case 7:
			t.Lease = d.Time()
		case 8:
			t.Reply = encoding.ReadReply(d)
		case 9:
			t.Reason = record.Reason(d.Text())
		case 11:
			t.Detail = d.Text()
		case 10:
			t.Request = &record.Message{}
			encoding.ReadMessage(d, t.Request)
		default:
			return false
		}
		return true
	})
	if t.State == record.Absent {
		d.Fail("a token without a state")
	}
}

func readState(d *encoding.Decoder) record.TokenState {
	n := d.Uint()
	if n > uint64(record.Done) {
		d.Fail("a token with state %d", n)
		return record.Absent
	}
	return record.TokenState(n)
}
