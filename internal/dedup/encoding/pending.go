package encoding

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// WritePending appends a pending entry.
func WritePending(e *Encoder, p *record.Pending) {
	at := e.Object()
	e.UintField(at, 1, p.Number)
	e.TextField(at, 2, p.Identity)
	e.TextField(at, 3, p.Principal)
	e.HashField(at, 4, (*[32]byte)(&p.Token))
	e.HashField(at, 5, (*[32]byte)(&p.Fingerprint))
	e.TextField(at, 6, p.Attempt)
	ListField(e, at, 7, p.Effects, WriteEffect)
	ListField(e, at, 8, p.Sent, WriteSent)
	if p.Reply != nil {
		e.Field(at, 9)
		WriteReply(e, p.Reply)
	}
	e.BoolField(at, 10, p.Marks)
	e.IntField(at, 11, int64(p.Retention))
	e.IntField(at, 12, Seconds(p.Committed))
	e.IntField(at, 13, Seconds(p.DoneUntil))
}

// ReadPending reads an entry written by WritePending.
func ReadPending(d *Decoder, p *record.Pending) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			p.Number = d.Uint()
		case 2:
			p.Identity = d.Text()
		case 3:
			p.Principal = d.Text()
		case 4:
			d.Hash((*[32]byte)(&p.Token))
		case 5:
			d.Hash((*[32]byte)(&p.Fingerprint))
		case 6:
			p.Attempt = d.Text()
		case 7:
			p.Effects = ListOf(d, ReadEffect)
		case 8:
			p.Sent = ListOf(d, ReadSent)
		case 9:
			p.Reply = ReadReply(d)
		case 10:
			p.Marks = d.Bool()
		case 11:
			p.Retention = time.Duration(d.Int())
		case 12:
			p.Committed = FromSeconds(d.Int())
		case 13:
			p.DoneUntil = FromSeconds(d.Int())
		default:
			return false
		}
		return true
	})
}
