package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

func effect(f *Fields, x *record.Effect) {
	f.Texts(1, &x.To)
	f.Text(2, &x.Group)
	f.Text(3, &x.ID)
	f.Text(4, &x.Source)
	f.Uint(5, &x.Epoch)
	f.Uint(6, &x.Sequence)
	f.Text(7, &x.ContentType)
	f.TextMap(8, &x.Headers)
	f.Bytes(9, &x.Body)
	f.UintMap(10, &x.Chain)
	switch {
	case !f.begin(11, x.Blob != nil):
	case f.e != nil:
		f.e.head(array, 2)
		f.e.Text(x.Blob.Key)
		f.e.Text(x.Blob.Staged)
	default:
		f.d.Pair()
		x.Blob = &record.Blob{Key: f.d.Text(), Staged: f.d.Text()}
	}
	f.Texts(12, &x.Via)
	f.UintMap(13, &x.DependsOn)
	f.Time(14, &x.NotBefore)
	f.Text(15, &x.Timer)
}

// WriteEffect appends an effect.
func WriteEffect(e *Encoder, x *record.Effect) {
	f := Writing(e)
	effect(&f, x)
}

// ReadEffect reads an effect written by WriteEffect.
func ReadEffect(d *Decoder, x *record.Effect) {
	f := Reading(d)
	effect(&f, x)
	f.End()
}

// WriteSent appends a mark of a sent effect.
func WriteSent(e *Encoder, s *record.Sent) {
	e.head(array, 2)
	e.Int(int64(s.Effect))
	e.Text(s.To)
}

// ReadSent reads a mark written by WriteSent.
func ReadSent(d *Decoder, s *record.Sent) {
	d.Pair()
	s.Effect = int(d.Int())
	s.To = d.Text()
}

func reply(f *Fields, r *record.Reply) {
	f.Number(1, &r.Status)
	entries(f, 2, &r.Header, WriteTexts, ReadTexts)
	f.Bytes(3, &r.Body)
}

// WriteReply appends a reply.
func WriteReply(e *Encoder, r *record.Reply) {
	f := Writing(e)
	reply(&f, r)
}

// ReadReply reads a reply written by WriteReply.
func ReadReply(d *Decoder) *record.Reply {
	r, f := &record.Reply{}, Reading(d)
	reply(&f, r)
	f.End()
	return r
}

// Reply is a field with a reply; nil is left out.
func (f *Fields) Reply(number uint64, r **record.Reply) {
	switch {
	case !f.begin(number, *r != nil):
	case f.e != nil:
		WriteReply(f.e, *r)
	default:
		*r = ReadReply(f.d)
	}
}

func writeTextAt(e *Encoder, s *string) { e.Text(*s) }

func readText(d *Decoder, s *string) { *s = d.Text() }

// WriteTexts appends a list of texts.
func WriteTexts(e *Encoder, list []string) {
	List(e, list, writeTextAt)
}

// ReadTexts reads a list written by WriteTexts.
func ReadTexts(d *Decoder) []string { return ListOf(d, readText) }

// WriteUint appends a number, for maps of numbers.
func WriteUint(e *Encoder, n uint64) { e.head(unsigned, n) }
