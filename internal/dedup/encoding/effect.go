package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

// WriteEffect appends an effect.
func WriteEffect(e *Encoder, x *record.Effect) {
	at := e.Object()
	ListField(e, at, 1, x.To, writeTextAt)
	e.TextField(at, 2, x.Group)
	e.TextField(at, 3, x.ID)
	e.TextField(at, 4, x.Source)
	e.UintField(at, 5, x.Epoch)
	e.UintField(at, 6, x.Sequence)
	e.TextField(at, 7, x.ContentType)
	MapField(e, at, 8, x.Headers, writeText)
	e.BytesField(at, 9, x.Body)
	MapField(e, at, 10, x.Chain, WriteUint)
	if x.Blob != nil {
		e.Field(at, 11)
		e.head(array, 2)
		e.Text(x.Blob.Key)
		e.Text(x.Blob.Staged)
	}
	ListField(e, at, 12, x.Via, writeTextAt)
	MapField(e, at, 13, x.DependsOn, WriteUint)
	e.IntField(at, 14, Micros(x.NotBefore))
	e.TextField(at, 15, x.Timer)
}

// ReadEffect reads an effect written by WriteEffect.
func ReadEffect(d *Decoder, x *record.Effect) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			x.To = ListOf(d, readText)
		case 2:
			x.Group = d.Text()
		case 3:
			x.ID = d.Text()
		case 4:
			x.Source = d.Text()
		case 5:
			x.Epoch = d.Uint()
		case 6:
			x.Sequence = d.Uint()
		case 7:
			x.ContentType = d.Text()
		case 8:
			x.Headers = MapOf(d, (*Decoder).Text)
		case 9:
			x.Body = d.Bytes()
		case 10:
			x.Chain = MapOf(d, (*Decoder).Uint)
		case 11:
			d.Pair()
			x.Blob = &record.Blob{Key: d.Text(), Staged: d.Text()}
		case 12:
			x.Via = ListOf(d, readText)
		case 13:
			x.DependsOn = MapOf(d, (*Decoder).Uint)
		case 14:
			x.NotBefore = d.Time()
		case 15:
			x.Timer = d.Text()
		default:
			return false
		}
		return true
	})
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

// WriteReply appends a reply.
func WriteReply(e *Encoder, r *record.Reply) {
	at := e.Object()
	e.IntField(at, 1, int64(r.Status))
	MapField(e, at, 2, r.Header, WriteTexts)
	e.BytesField(at, 3, r.Body)
}

// ReadReply reads a reply written by WriteReply.
func ReadReply(d *Decoder) *record.Reply {
	r := &record.Reply{}
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			r.Status = int(d.Int())
		case 2:
			r.Header = MapOf(d, ReadTexts)
		case 3:
			r.Body = d.Bytes()
		default:
			return false
		}
		return true
	})
	return r
}

func writeText(e *Encoder, s string) { e.Text(s) }

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
