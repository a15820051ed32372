package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

func message(f *Fields, m *record.Message) {
	f.Text(1, &m.Principal)
	f.Text(2, &m.Stream)
	f.Text(3, &m.ID)
	f.Text(4, &m.Group)
	f.Text(5, &m.Source)
	f.Uint(6, &m.Epoch)
	f.Uint(7, &m.Sequence)
	f.UintMap(8, &m.DependsOn)
	f.Text(9, &m.ContentType)
	f.TextMap(10, &m.Headers)
	f.Bytes(11, &m.Body)
	f.Text(12, &m.Route)
	f.Time(13, &m.Accepted)
	items(f, 14, &m.Parents, func(e *Encoder, n *uint64) { e.Uint(*n) }, func(d *Decoder, n *uint64) { *n = d.Uint() })
	f.Uint(15, (*uint64)(&m.Seen))
	f.Texts(16, &m.Via)
	f.Bool(17, &m.Void)
	f.Bool(18, &m.End)
	f.Text(19, &m.RedeliveryOf)
	f.Hash(20, &m.Content)
	f.Time(21, &m.NotBefore)
	f.Text(22, &m.Timer)
	f.Uint(23, &m.TimerNumber)
}

// WriteMessage appends a message.
func WriteMessage(e *Encoder, m *record.Message) {
	f := Writing(e)
	message(&f, m)
}

// ReadMessage reads a message written by WriteMessage.
func ReadMessage(d *Decoder, m *record.Message) {
	f := Reading(d)
	message(&f, m)
	f.End()
}

// Message is a field with a message; nil is left out.
func (f *Fields) Message(number uint64, m **record.Message) {
	switch {
	case !f.begin(number, *m != nil):
	case f.e != nil:
		WriteMessage(f.e, *m)
	default:
		*m = &record.Message{}
		ReadMessage(f.d, *m)
	}
}

func held(f *Fields, h *record.Held) {
	switch {
	case !f.begin(1, true):
	case f.e != nil:
		WriteMessage(f.e, &h.Message)
	default:
		ReadMessage(f.d, &h.Message)
	}
	f.Time(2, &h.At)
}

// WriteHeld appends a held message.
func WriteHeld(e *Encoder, h *record.Held) {
	f := Writing(e)
	held(&f, h)
}

// ReadHeld reads what WriteHeld appended.
func ReadHeld(d *Decoder, h *record.Held) {
	f := Reading(d)
	held(&f, h)
	f.End()
}
