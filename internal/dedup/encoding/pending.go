package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

func pending(f *Fields, p *record.Pending) {
	f.Uint(1, &p.Number)
	f.Text(2, &p.Identity)
	f.Text(3, &p.Principal)
	f.Hash(4, (*[32]byte)(&p.Token))
	f.Hash(5, (*[32]byte)(&p.Fingerprint))
	f.Text(6, &p.Attempt)
	items(f, 7, &p.Effects, WriteEffect, ReadEffect)
	items(f, 8, &p.Sent, WriteSent, ReadSent)
	f.Reply(9, &p.Reply)
	f.Bool(10, &p.Marks)
	f.Int(11, (*int64)(&p.Retention))
	f.Seconds(12, &p.Committed)
	f.Seconds(13, &p.DoneUntil)
}

// Pending is a field with pending entries.
//
//go:noinline
func (f *Fields) Pending(number uint64, list *[]record.Pending) {
	items(f, number, list, WritePending, ReadPending)
}

// WritePending appends a pending entry.
func WritePending(e *Encoder, p *record.Pending) {
	f := Writing(e)
	pending(&f, p)
}

// ReadPending reads an entry written by WritePending.
func ReadPending(d *Decoder, p *record.Pending) {
	f := Reading(d)
	pending(&f, p)
	f.End()
}
