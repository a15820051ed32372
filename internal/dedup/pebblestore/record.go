package pebblestore

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// The fields of the stored records. Their numbers are the format: names may change, numbers may not, and a number is never used again. What is in
// the key or in front of the body is not repeated. Each record is written and read side by side.

func writeGroup(e *encoder, g *record.Group) {
	at := e.object()
	e.bytesField(at, 1, g.State)
	listField(e, at, 2, g.Pending, writePending)
	e.uintField(at, 3, g.Last)
	mapField(e, at, 4, g.Sources, writeSource)
	mapField(e, at, 5, g.Chained, writeUint)
	e.intField(at, 6, int64(g.Retention))
}

func readGroup(d *decoder, g *record.Group) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			g.State = d.bytes()
		case 2:
			g.Pending = listOf(d, readPending)
		case 3:
			g.Last = d.uint()
		case 4:
			g.Sources = mapOf(d, readSource)
		case 5:
			g.Chained = mapOf(d, (*decoder).uint)
		case 6:
			g.Retention = time.Duration(d.int())
		default:
			return false
		}
		return true
	})
}

func writeUint(e *encoder, n uint64)    { e.head(unsigned, n) }
func writeText(e *encoder, s string)    { e.text(s) }
func writeTextAt(e *encoder, s *string) { e.text(*s) }
func readText(d *decoder, s *string)    { *s = d.text() }

func writeSource(e *encoder, s record.Source) {
	at := e.object()
	e.uintField(at, 1, s.Epoch)
	e.uintField(at, 2, s.Next)
	listField(e, at, 3, s.Held, writeRange)
	listField(e, at, 4, s.Skipped, writeRange)
	e.intField(at, 5, int64(s.HeldBytes))
	e.intField(at, 6, micros(s.GapSince))
}

func readSource(d *decoder) (s record.Source) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			s.Epoch = d.uint()
		case 2:
			s.Next = d.uint()
		case 3:
			s.Held = listOf(d, readRange)
		case 4:
			s.Skipped = listOf(d, readRange)
		case 5:
			s.HeldBytes = int(d.int())
		case 6:
			s.GapSince = d.time()
		default:
			return false
		}
		return true
	})
	return s
}

func writeRange(e *encoder, r *record.Range) {
	e.head(array, 2)
	e.head(unsigned, r.First)
	e.head(unsigned, r.Last)
}

func readRange(d *decoder, r *record.Range) {
	d.pair()
	r.First = d.uint()
	r.Last = d.uint()
}

func writePending(e *encoder, p *record.Pending) {
	at := e.object()
	e.uintField(at, 1, p.Number)
	e.textField(at, 2, p.Identity)
	e.textField(at, 3, p.Principal)
	e.hashField(at, 4, (*[32]byte)(&p.Token))
	e.hashField(at, 5, (*[32]byte)(&p.Fingerprint))
	e.textField(at, 6, p.Attempt)
	listField(e, at, 7, p.Effects, writeEffect)
	listField(e, at, 8, p.Sent, writeSent)
	writeReply(e, at, 9, p.Reply)
	e.boolField(at, 10, p.Marks)
	e.intField(at, 11, int64(p.Retention))
}

func readPending(d *decoder, p *record.Pending) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			p.Number = d.uint()
		case 2:
			p.Identity = d.text()
		case 3:
			p.Principal = d.text()
		case 4:
			d.hash((*[32]byte)(&p.Token))
		case 5:
			d.hash((*[32]byte)(&p.Fingerprint))
		case 6:
			p.Attempt = d.text()
		case 7:
			p.Effects = listOf(d, readEffect)
		case 8:
			p.Sent = listOf(d, readSent)
		case 9:
			p.Reply = readReply(d)
		case 10:
			p.Marks = d.bool()
		case 11:
			p.Retention = time.Duration(d.int())
		default:
			return false
		}
		return true
	})
}

func writeSent(e *encoder, s *record.Sent) {
	e.head(array, 2)
	e.int(int64(s.Effect))
	e.text(s.To)
}

func readSent(d *decoder, s *record.Sent) {
	d.pair()
	s.Effect = int(d.int())
	s.To = d.text()
}

func writeEffect(e *encoder, x *record.Effect) {
	at := e.object()
	listField(e, at, 1, x.To, writeTextAt)
	e.textField(at, 2, x.Group)
	e.textField(at, 3, x.ID)
	e.textField(at, 4, x.Source)
	e.uintField(at, 5, x.Epoch)
	e.uintField(at, 6, x.Sequence)
	e.textField(at, 7, x.ContentType)
	mapField(e, at, 8, x.Headers, writeText)
	e.bytesField(at, 9, x.Body)
	mapField(e, at, 10, x.Chain, writeUint)
	if x.Blob != nil {
		e.field(at, 11)
		e.head(array, 2)
		e.text(x.Blob.Key)
		e.text(x.Blob.Staged)
	}
}

func readEffect(d *decoder, x *record.Effect) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			x.To = listOf(d, readText)
		case 2:
			x.Group = d.text()
		case 3:
			x.ID = d.text()
		case 4:
			x.Source = d.text()
		case 5:
			x.Epoch = d.uint()
		case 6:
			x.Sequence = d.uint()
		case 7:
			x.ContentType = d.text()
		case 8:
			x.Headers = mapOf(d, (*decoder).text)
		case 9:
			x.Body = d.bytes()
		case 10:
			x.Chain = mapOf(d, (*decoder).uint)
		case 11:
			d.pair()
			x.Blob = &record.Blob{Key: d.text(), Staged: d.text()}
		default:
			return false
		}
		return true
	})
}

func writeReply(e *encoder, within int, number uint64, r *record.Reply) {
	if r == nil {
		return
	}
	e.field(within, number)
	at := e.object()
	e.intField(at, 1, int64(r.Status))
	mapField(e, at, 2, r.Header, writeTexts)
	e.bytesField(at, 3, r.Body)
}

func readReply(d *decoder) *record.Reply {
	r := &record.Reply{}
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			r.Status = int(d.int())
		case 2:
			r.Header = mapOf(d, readTexts)
		case 3:
			r.Body = d.bytes()
		default:
			return false
		}
		return true
	})
	return r
}

func writeTexts(e *encoder, list []string) {
	e.head(array, uint64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}

func readTexts(d *decoder) []string { return listOf(d, readText) }

func writeToken(e *encoder, t *record.Token) {
	at := e.object()
	e.uintField(at, 1, uint64(t.State))
	e.hashField(at, 2, (*[32]byte)(&t.Fingerprint))
	e.textField(at, 3, t.Stream)
	e.textField(at, 4, t.Group)
	e.textField(at, 5, t.Owner)
	e.uintField(at, 6, t.Epoch)
	e.intField(at, 7, micros(t.Lease))
	writeReply(e, at, 8, t.Reply)
	e.textField(at, 9, string(t.Reason))
	if t.Request != nil {
		e.field(at, 10)
		writeMessage(e, t.Request)
	}
}

func readToken(d *decoder, t *record.Token) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			t.State = readState(d)
		case 2:
			d.hash((*[32]byte)(&t.Fingerprint))
		case 3:
			t.Stream = d.text()
		case 4:
			t.Group = d.text()
		case 5:
			t.Owner = d.text()
		case 6:
			t.Epoch = d.uint()
		case 7:
			t.Lease = d.time()
		case 8:
			t.Reply = readReply(d)
		case 9:
			t.Reason = record.Reason(d.text())
		case 10:
			t.Request = &record.Message{}
			readMessage(d, t.Request)
		default:
			return false
		}
		return true
	})
	if t.State == record.Absent {
		d.fail("a token without a state")
	}
}

func readState(d *decoder) record.TokenState {
	n := d.uint()
	if n > uint64(record.Done) {
		d.fail("a token with state %d", n)
		return record.Absent
	}
	return record.TokenState(n)
}

func writeHeld(e *encoder, h *record.Held) {
	at := e.object()
	e.field(at, 1)
	writeMessage(e, &h.Message)
	e.intField(at, 2, micros(h.At))
}

func readHeld(d *decoder, h *record.Held) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			readMessage(d, &h.Message)
		case 2:
			h.At = d.time()
		default:
			return false
		}
		return true
	})
}
