package dynamostore

import (
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// Pending entries are stored as small as possible. A commit and a clear are billed by the size of
// the group's item, a write unit for each KiB, and ten entries should fit into one unit. An entry
// leaves out its common part, and the values that follow from the rest of it: the token's key
// follows from its identity, the fingerprint from the body of an effect that forwards the message,
// the names of such an effect from the entry's own.

// writeEntry appends an entry.
func writeEntry(e *encoding.Encoder, key record.GroupKey, p *record.Pending, c common) {
	at := e.Object()
	if c.identity == "" {
		e.TextField(at, 1, p.Identity)
	}
	writeHash(e, at, 2, p.Token, tokenOf(key, p))
	writeHash(e, at, 3, p.Fingerprint, fingerprintOf(key, p))
	e.TextField(at, 4, strings.TrimPrefix(p.Attempt, c.attempt))
	effects, named := unnamed(p)
	encoding.ListField(e, at, 5, effects, encoding.WriteEffect)
	if p.Reply != nil {
		e.Field(at, 6)
		encoding.WriteReply(e, p.Reply)
	}
	e.BoolField(at, 7, p.Marks)
	e.BoolField(at, 8, named)
}

// readEntry reads an entry written by writeEntry.
func readEntry(d *encoding.Decoder, key record.GroupKey, number uint64, c common) record.Pending {
	p := record.Pending{Number: number, Identity: c.name(number), Principal: c.principal, Attempt: c.attempt, Retention: c.retention}
	token, fingerprint, named := false, false, false
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			p.Identity = d.Text()
		case 2:
			token = readHash(d, (*[32]byte)(&p.Token))
		case 3:
			fingerprint = readHash(d, (*[32]byte)(&p.Fingerprint))
		case 4:
			p.Attempt += d.Text()
		case 5:
			p.Effects = encoding.ListOf(d, encoding.ReadEffect)
		case 6:
			p.Reply = encoding.ReadReply(d)
		case 7:
			p.Marks = d.Bool()
		case 8:
			named = d.Bool()
		default:
			return false
		}
		return true
	})
	if len(p.Effects) > 0 {
		p.Effects[0].To, p.Effects[0].ContentType, p.Committed = slices.Clone(c.to), c.contentType, c.committed
	}
	if named {
		name(&p)
	}
	if !token {
		p.Token = tokenOf(key, &p)
	}
	if !fingerprint {
		p.Fingerprint = fingerprintOf(key, &p)
	}
	return p
}

// writeHash leaves out a hash that follows from the rest, and a second half of zeros.
func writeHash(e *encoding.Encoder, at int, number uint64, hash, follows [32]byte) {
	b := hash[:]
	if [16]byte(b[16:]) == [16]byte{} {
		b = b[:16]
	}
	if hash != follows {
		e.BytesField(at, number, b)
	}
}

func readHash(d *encoding.Decoder, into *[32]byte) bool {
	b := d.Bytes()
	if n := len(b); n != 16 && n != len(into) {
		d.Fail("a hash of %d bytes", len(b))
	}
	copy(into[:], b)
	return true
}

// tokenOf returns the key of the token of a message with the entry's identity.
func tokenOf(key record.GroupKey, p *record.Pending) record.TokenKey {
	if _, _, _, ok := record.ParseNumber(p.Identity); ok {
		return record.NewNumberKey(p.Principal, key, p.Identity)
	}
	return record.NewTokenKey(p.Principal, key.Stream, p.Identity)
}

// fingerprintOf returns the fingerprint, as the entry keeps it, of a message of the group with the
// body of the first effect.
func fingerprintOf(key record.GroupKey, p *record.Pending) record.Fingerprint {
	m := record.Message{Group: key.Group}
	if len(p.Effects) > 0 {
		m.Body = p.Effects[0].Body
	}
	return p.Print(m.Fingerprint())
}

// unnamed returns the effects to store. The first one is without its common part. If its names are
// those of the message, they are left out too, and named is true.
func unnamed(p *record.Pending) (effects []record.Effect, named bool) {
	if len(p.Effects) == 0 {
		return nil, false
	}
	effects = append([]record.Effect(nil), p.Effects...)
	f := &effects[0]
	f.To, f.ContentType = nil, ""
	as := record.Pending{Identity: p.Identity, Effects: []record.Effect{{ID: f.ID}}}
	if name(&as); f.ID == "" || as.Effects[0].Source != f.Source || as.Effects[0].Epoch != f.Epoch || as.Effects[0].Sequence != f.Sequence {
		return effects, false
	}
	if f.Source, f.Epoch, f.Sequence = "", 0, 0; f.ID == p.Identity {
		f.ID = ""
	}
	return effects, true
}

// name sets the names of the first effect to those of the message. An ID that it has stays.
func name(p *record.Pending) {
	if len(p.Effects) == 0 {
		return
	}
	f := &p.Effects[0]
	if f.ID == "" {
		f.ID = p.Identity
	}
	if source, epoch, sequence, ok := record.ParseNumber(p.Identity); ok {
		f.Source, f.Epoch, f.Sequence = source, epoch, sequence
	}
}
