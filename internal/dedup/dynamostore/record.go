package dynamostore

import (
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/record"
)

// The records within binary attributes: CBOR maps of numbered fields. The numbers are the format: names may change, numbers may not, and a number is never used
// again.

type pendingRecord struct {
	Identity    string             `cbor:"1,keyasint,omitempty"`
	Principal   string             `cbor:"2,keyasint,omitempty"`
	Token       record.TokenKey    `cbor:"3,keyasint"`
	Fingerprint record.Fingerprint `cbor:"4,keyasint"`
	Attempt     string             `cbor:"5,keyasint,omitempty"`
	Effects     []effectRecord     `cbor:"6,keyasint,omitempty"`
	Reply       *replyRecord       `cbor:"7,keyasint,omitempty"`
	Marks       bool               `cbor:"8,keyasint,omitempty"`
	Retention   time.Duration      `cbor:"9,keyasint,omitempty"`
}

type effectRecord struct {
	To          []string          `cbor:"1,keyasint,omitempty"`
	Group       string            `cbor:"2,keyasint,omitempty"`
	ID          string            `cbor:"3,keyasint,omitempty"`
	Source      string            `cbor:"4,keyasint,omitempty"`
	Epoch       uint64            `cbor:"5,keyasint,omitempty"`
	Sequence    uint64            `cbor:"6,keyasint,omitempty"`
	ContentType string            `cbor:"7,keyasint,omitempty"`
	Headers     map[string]string `cbor:"8,keyasint,omitempty"`
	Body        []byte            `cbor:"9,keyasint,omitempty"`
	Chain       map[string]uint64 `cbor:"10,keyasint,omitempty"`
	Blob        *blobRecord       `cbor:"11,keyasint,omitempty"`
}

type blobRecord struct {
	Key    string `cbor:"1,keyasint,omitempty"`
	Staged string `cbor:"2,keyasint,omitempty"`
}

type replyRecord struct {
	Status int                 `cbor:"1,keyasint,omitempty"`
	Header map[string][]string `cbor:"2,keyasint,omitempty"`
	Body   []byte              `cbor:"3,keyasint,omitempty"`
}

type sentRecord struct {
	_      struct{} `cbor:",toarray"`
	Effect int
	To     string
}

type sourceRecord struct {
	Epoch     uint64        `cbor:"1,keyasint,omitempty"`
	Next      uint64        `cbor:"2,keyasint,omitempty"`
	Held      []rangeRecord `cbor:"3,keyasint,omitempty"`
	Skipped   []rangeRecord `cbor:"4,keyasint,omitempty"`
	HeldBytes int           `cbor:"5,keyasint,omitempty"`
	GapSince  int64         `cbor:"6,keyasint,omitempty"` // milliseconds
}

type rangeRecord struct {
	_           struct{} `cbor:",toarray"`
	First, Last uint64
}

type heldRecord struct {
	Message messageRecord `cbor:"1,keyasint"`
	At      int64         `cbor:"2,keyasint,omitempty"` // milliseconds
}

type messageRecord struct {
	Principal   string            `cbor:"1,keyasint,omitempty"`
	Stream      string            `cbor:"2,keyasint,omitempty"`
	ID          string            `cbor:"3,keyasint,omitempty"`
	Group       string            `cbor:"4,keyasint,omitempty"`
	Source      string            `cbor:"5,keyasint,omitempty"`
	Epoch       uint64            `cbor:"6,keyasint,omitempty"`
	Sequence    uint64            `cbor:"7,keyasint,omitempty"`
	DependsOn   map[string]uint64 `cbor:"8,keyasint,omitempty"`
	ContentType string            `cbor:"9,keyasint,omitempty"`
	Headers     map[string]string `cbor:"10,keyasint,omitempty"`
	Body        []byte            `cbor:"11,keyasint,omitempty"`
	Route       string            `cbor:"12,keyasint,omitempty"`
	Accepted    time.Time         `cbor:"13,keyasint,omitempty"`
	Retention   time.Duration     `cbor:"14,keyasint,omitempty"`
}

// A codec writes and reads records.
type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func newCodec() (codec, error) {
	encoding := cbor.CoreDetEncOptions()
	encoding.Time = cbor.TimeRFC3339NanoUTC
	enc, err := encoding.EncMode()
	if err != nil {
		return codec{}, fmt.Errorf("make encoder: %w", err)
	}
	// A field that this program does not know is corruption: to ignore it would be to drop it with the next commit.
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, UTF8: cbor.UTF8DecodeInvalid,
	}.DecMode()
	if err != nil {
		return codec{}, fmt.Errorf("make decoder: %w", err)
	}
	return codec{enc: enc, dec: dec}, nil
}

func (c codec) encode(v any) ([]byte, error) {
	b, err := c.enc.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return b, nil
}

func (c codec) decode(b []byte, v any) error {
	if err := c.dec.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	return nil
}

func toPending(p *record.Pending) pendingRecord {
	r := pendingRecord{
		Identity: p.Identity, Principal: p.Principal, Token: p.Token, Fingerprint: p.Fingerprint, Attempt: p.Attempt,
		Reply: (*replyRecord)(p.Reply), Marks: p.Marks, Retention: p.Retention,
	}
	for _, e := range p.Effects {
		r.Effects = append(r.Effects, effectRecord{
			To: e.To, Group: e.Group, ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence,
			ContentType: e.ContentType, Headers: e.Headers, Body: e.Body, Chain: e.Chain, Blob: (*blobRecord)(e.Blob),
		})
	}
	return r
}

func (r *pendingRecord) pending(number uint64) record.Pending {
	p := record.Pending{
		Number: number, Identity: r.Identity, Principal: r.Principal, Token: r.Token, Fingerprint: r.Fingerprint, Attempt: r.Attempt,
		Reply: (*record.Reply)(r.Reply), Marks: r.Marks, Retention: r.Retention,
	}
	for _, e := range r.Effects {
		p.Effects = append(p.Effects, record.Effect{
			To: e.To, Group: e.Group, ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence,
			ContentType: e.ContentType, Headers: e.Headers, Body: e.Body, Chain: e.Chain, Blob: (*record.Blob)(e.Blob),
		})
	}
	return p
}

func toSent(sent []record.Sent) []sentRecord {
	var out []sentRecord
	for _, s := range sent {
		out = append(out, sentRecord{Effect: s.Effect, To: s.To})
	}
	return out
}

func fromSent(records []sentRecord) []record.Sent {
	var out []record.Sent
	for _, r := range records {
		out = append(out, record.Sent{Effect: r.Effect, To: r.To})
	}
	return out
}

func toSources(sources map[string]record.Source) map[string]sourceRecord {
	out := make(map[string]sourceRecord, len(sources))
	for key, s := range sources {
		out[key] = sourceRecord{
			Epoch: s.Epoch, Next: s.Next, Held: toRanges(s.Held), Skipped: toRanges(s.Skipped), HeldBytes: s.HeldBytes, GapSince: millis(s.GapSince),
		}
	}
	return out
}

func fromSources(records map[string]sourceRecord) map[string]record.Source {
	out := make(map[string]record.Source, len(records))
	for key, r := range records {
		out[key] = record.Source{
			Epoch: r.Epoch, Next: r.Next, Held: fromRanges(r.Held), Skipped: fromRanges(r.Skipped), HeldBytes: r.HeldBytes, GapSince: fromMillis(r.GapSince),
		}
	}
	return out
}

func toRanges(ranges record.Ranges) []rangeRecord {
	var out []rangeRecord
	for _, r := range ranges {
		out = append(out, rangeRecord{First: r.First, Last: r.Last})
	}
	return out
}

func fromRanges(records []rangeRecord) record.Ranges {
	var out record.Ranges
	for _, r := range records {
		out = append(out, record.Range{First: r.First, Last: r.Last})
	}
	return out
}

// millis is a time as it is stored; 0 is the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
