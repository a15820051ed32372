package sqlstore

import (
	"fmt"
	"math"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// format is the version of the stored format. A change of the meaning of a column needs a new
// number. A row of an unknown format, which a newer program has written, is corrupt: it is never
// changed or deleted.
const (
	format    = 1
	theFormat = "1" // the same in statements
)

// maxOwner is the longest owner in bytes.
const maxOwner = 255

// A row is a token as it is stored. Times are in milliseconds of Unix time, 0 if there is none.
type row struct {
	id            []byte // the key, a hash
	format, state int64
	owner         []byte // bytes, so that they are compared exactly
	epoch         int64  // the bits of the token's epoch
	lease         int64
	expires       int64  // never is the largest number
	content       []byte // the other fields, as writeContent encodes them
}

const never = math.MaxInt64

func rowOf(t *record.Token) row {
	e := &encoding.Encoder{}
	writeContent(e, t)
	r := row{
		id: t.Key[:], format: format, state: int64(t.State), owner: []byte(t.Owner), epoch: int64(t.Epoch), //nolint:gosec // bits
		expires: never, content: e.B,
	}
	if !t.Lease.IsZero() {
		r.lease = t.Lease.UnixMilli()
	}
	if !t.Expires.IsZero() {
		r.expires = t.Expires.UnixMilli()
	}
	return r
}

// changes returns the values of all columns but id and writes, in the order of the statements.
func (r *row) changes() []any {
	return []any{r.format, r.state, r.owner, r.epoch, r.lease, r.expires, r.content}
}

// token decodes a row. An expired one is an absent token.
func (r *row) token(key record.TokenKey, now time.Time) (record.Token, error) {
	if r.format != format {
		return record.Token{}, fmt.Errorf("%w: its format is %d, and this program reads %d", record.ErrCorrupt, r.format, format)
	}
	if r.expires <= now.UnixMilli() {
		return record.Token{Key: key}, nil
	}
	if r.state <= int64(record.Absent) || r.state > int64(record.Done) {
		return record.Token{}, fmt.Errorf("%w: state %d is none", record.ErrCorrupt, r.state)
	}
	t := record.Token{Key: key, State: record.TokenState(r.state), Owner: string(r.owner), Epoch: uint64(r.epoch)} //nolint:gosec // bits
	if r.lease != 0 {
		t.Lease = time.UnixMilli(r.lease).UTC()
	}
	if r.expires != never {
		t.Expires = time.UnixMilli(r.expires).UTC()
	}
	d := encoding.NewDecoder(r.content)
	readContent(d, &t)
	if err := d.End(); err != nil {
		return record.Token{}, fmt.Errorf("content: %w", err)
	}
	return t, nil
}

// writeContent encodes the fields of a token that have no column of their own.
func writeContent(e *encoding.Encoder, t *record.Token) {
	at := e.Object()
	e.HashField(at, 1, (*[32]byte)(&t.Fingerprint))
	e.TextField(at, 2, t.Stream)
	e.TextField(at, 3, t.Group)
	if t.Reply != nil {
		e.Field(at, 4)
		encoding.WriteReply(e, t.Reply)
	}
	e.TextField(at, 5, string(t.Reason))
	e.TextField(at, 6, t.Detail)
	if t.Request != nil {
		e.Field(at, 7)
		encoding.WriteMessage(e, t.Request)
	}
}

func readContent(d *encoding.Decoder, t *record.Token) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			d.Hash((*[32]byte)(&t.Fingerprint))
		case 2:
			t.Stream = d.Text()
		case 3:
			t.Group = d.Text()
		case 4:
			t.Reply = encoding.ReadReply(d)
		case 5:
			t.Reason = record.Reason(d.Text())
		case 6:
			t.Detail = d.Text()
		case 7:
			t.Request = &record.Message{}
			encoding.ReadMessage(d, t.Request)
		default:
			return false
		}
		return true
	})
}
