package pebblestore

import (
	"cmp"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// The fields of groups and tokens; those of their parts are in package stored, with the rules for all of them.

func writeGroup(e *stored.Encoder, g *record.Group) {
	at := e.Object()
	e.BytesField(at, 1, g.State)
	stored.ListField(e, at, 2, g.Pending, stored.WritePending)
	e.UintField(at, 3, g.Last)
	stored.MapField(e, at, 4, g.Sources, stored.WriteSource)
	stored.MapField(e, at, 5, g.Chained, stored.WriteUint)
	e.IntField(at, 6, int64(g.Retention))
}

func readGroup(d *stored.Decoder, g *record.Group) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			g.State = d.Bytes()
		case 2:
			g.Pending = stored.ListOf(d, stored.ReadPending)
		case 3:
			g.Last = d.Uint()
		case 4:
			g.Sources = stored.MapOf(d, stored.ReadSource)
		case 5:
			g.Chained = stored.MapOf(d, (*stored.Decoder).Uint)
		case 6:
			g.Retention = time.Duration(d.Int())
		default:
			return false
		}
		return true
	})
	if !slices.IsSortedFunc(g.Pending, func(a, b record.Pending) int { return cmp.Compare(a.Number, b.Number) }) {
		d.Fail("pending entries out of order")
	}
}

func writeToken(e *stored.Encoder, t *record.Token) {
	at := e.Object()
	e.UintField(at, 1, uint64(t.State))
	e.HashField(at, 2, (*[32]byte)(&t.Fingerprint))
	e.TextField(at, 3, t.Stream)
	e.TextField(at, 4, t.Group)
	e.TextField(at, 5, t.Owner)
	e.UintField(at, 6, t.Epoch)
	e.IntField(at, 7, stored.Micros(t.Lease))
	if t.Reply != nil {
		e.Field(at, 8)
		stored.WriteReply(e, t.Reply)
	}
	e.TextField(at, 9, string(t.Reason))
	if t.Request != nil {
		e.Field(at, 10)
		stored.WriteMessage(e, t.Request)
	}
}

func readToken(d *stored.Decoder, t *record.Token) {
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
			t.Reply = stored.ReadReply(d)
		case 9:
			t.Reason = record.Reason(d.Text())
		case 10:
			t.Request = &record.Message{}
			stored.ReadMessage(d, t.Request)
		default:
			return false
		}
		return true
	})
	if t.State == record.Absent {
		d.Fail("a token without a state")
	}
}

func readState(d *stored.Decoder) record.TokenState {
	n := d.Uint()
	if n > uint64(record.Done) {
		d.Fail("a token with state %d", n)
		return record.Absent
	}
	return record.TokenState(n)
}
