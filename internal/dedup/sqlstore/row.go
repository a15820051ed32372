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
	content       []byte // the other fields, as content encodes them
}

const never = math.MaxInt64

func rowOf(t *record.Token) row {
	e := &encoding.Encoder{}
	f := encoding.Writing(e)
	content(&f, t)
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
	f := encoding.Reading(d)
	content(&f, &t)
	f.End()
	if err := d.End(); err != nil {
		return record.Token{}, fmt.Errorf("content: %w", err)
	}
	return t, nil
}

// content names the fields of a token that have no column of their own.
func content(f *encoding.Fields, t *record.Token) {
	f.Hash(1, (*[32]byte)(&t.Fingerprint))
	f.Text(2, &t.Stream)
	f.Text(3, &t.Group)
	f.Reply(4, &t.Reply)
	f.Text(5, (*string)(&t.Reason))
	f.Text(6, &t.Detail)
	f.Message(7, &t.Request)
}
