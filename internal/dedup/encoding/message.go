package encoding

import (
	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/record"
)

// WriteMessage appends a message.
func WriteMessage(e *Encoder, m *record.Message) {
	at := e.Object()
	e.TextField(at, 1, m.Principal)
	e.TextField(at, 2, m.Stream)
	e.TextField(at, 3, m.ID)
	e.TextField(at, 4, m.Group)
	e.TextField(at, 5, m.Source)
	e.UintField(at, 6, m.Epoch)
	e.UintField(at, 7, m.Sequence)
	MapField(e, at, 8, m.DependsOn, WriteUint)
	e.TextField(at, 9, m.ContentType)
	MapField(e, at, 10, m.Headers, writeText)
	e.BytesField(at, 11, m.Body)
	e.TextField(at, 12, m.Route)
	e.IntField(at, 13, Micros(m.Accepted))
	ListField(e, at, 14, m.Parents, func(e *Encoder, n *uint64) { e.Uint(*n) })
	e.UintField(at, 15, uint64(m.Seen))
	ListField(e, at, 16, m.Via, writeTextAt)
	e.BoolField(at, 17, m.Void)
	e.BoolField(at, 18, m.End)
	e.TextField(at, 19, m.RedeliveryOf)
	e.HashField(at, 20, &m.Content)
	e.IntField(at, 21, Micros(m.NotBefore))
	e.TextField(at, 22, m.Timer)
	e.UintField(at, 23, m.TimerNumber)
}

// ReadMessage reads a message written by WriteMessage.
func ReadMessage(d *Decoder, m *record.Message) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			m.Principal = d.Text()
		case 2:
			m.Stream = d.Text()
		case 3:
			m.ID = d.Text()
		case 4:
			m.Group = d.Text()
		case 5:
			m.Source = d.Text()
		case 6:
			m.Epoch = d.Uint()
		case 7:
			m.Sequence = d.Uint()
		case 8:
			m.DependsOn = MapOf(d, (*Decoder).Uint)
		case 9:
			m.ContentType = d.Text()
		case 10:
			m.Headers = MapOf(d, (*Decoder).Text)
		case 11:
			m.Body = d.Bytes()
		case 12:
			m.Route = d.Text()
		case 13:
			m.Accepted = d.Time()
		case 14:
			m.Parents = ListOf(d, func(d *Decoder, n *uint64) { *n = d.Uint() })
		case 15:
			m.Seen = clock.Hybrid(d.Uint())
		case 16:
			m.Via = ListOf(d, readText)
		case 17:
			m.Void = d.Bool()
		case 18:
			m.End = d.Bool()
		case 19:
			m.RedeliveryOf = d.Text()
		case 20:
			d.Hash(&m.Content)
		case 21:
			m.NotBefore = d.Time()
		case 22:
			m.Timer = d.Text()
		case 23:
			m.TimerNumber = d.Uint()
		default:
			return false
		}
		return true
	})
}

// WriteHeld appends a held message.
func WriteHeld(e *Encoder, h *record.Held) {
	at := e.Object()
	e.Field(at, 1)
	WriteMessage(e, &h.Message)
	e.IntField(at, 2, Micros(h.At))
}

// ReadHeld reads what WriteHeld appended.
func ReadHeld(d *Decoder, h *record.Held) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			ReadMessage(d, &h.Message)
		case 2:
			h.At = d.Time()
		default:
			return false
		}
		return true
	})
}
