package dynamostore

import (
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// text returns a string attribute, or a binary one if s is not UTF-8, or nil if s is empty.
func text(s string) types.AttributeValue {
	switch {
	case s == "":
		return nil
	case utf8.ValidString(s):
		return str(s)
	default:
		return binary([]byte(s))
	}
}

// instant returns a time in milliseconds, or nil for the zero time.
func instant(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return nil
	}
	return integer(t.UnixMilli())
}

// ttl returns a time in seconds for the time-to-live attribute, rounded up: an item must not be
// deleted before conditions treat it as expired.
func ttl(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return nil
	}
	return integer(t.Add(time.Second - time.Nanosecond).Unix())
}

// put adds an attribute unless it is nil.
func put(it item, name string, v types.AttributeValue) {
	if v != nil {
		it[name] = v
	}
}

// A reader reads attributes of an item, and keeps the first error.
type reader struct {
	item item
	err  error
}

func (r *reader) fail(name, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: attribute %s %s", record.ErrCorrupt, name, what)
	}
}

// checkFormat refuses items of an unknown format.
func (r *reader) checkFormat() {
	if f := r.number(attrFormat); r.err == nil && f != format {
		r.fail(attrFormat, fmt.Sprintf("is %d, and this program reads %d", f, format))
	}
}

// checkGroupFormat is checkFormat for the item of a group.
func (r *reader) checkGroupFormat() {
	if f := r.number(attrFormat); f != formatTimer || r.item[attrTimers] == nil {
		r.checkFormat()
	}
}

// need refuses an item in which attributes are missing that are always written: decoding it would
// return a record that was never stored.
func (r *reader) need(names ...string) {
	for _, name := range names {
		if r.item[name] == nil {
			r.fail(name, "is missing")
		}
	}
}

func (r *reader) number(name string) uint64 {
	switch v := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseUint(v.Value, 10, 64)
		if err == nil {
			return n
		}
		r.fail(name, "is out of range")
	default:
		r.fail(name, "is no number")
	}
	return 0
	// seconds reads a duration in seconds.
}

// seconds reads a duration.
func (r *reader) seconds(name string) time.Duration {
	n := r.number(name)
	if n > math.MaxInt64/uint64(time.Second) {
		r.fail(name, "is out of range")
		return 0
	}
	return time.Duration(n) * time.Second
}

func (r *reader) instant(name string) time.Time {
	switch v := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		ms, err := strconv.ParseInt(v.Value, 10, 64)
		if err == nil {
			return time.UnixMilli(ms).UTC()
		}
		r.fail(name, "is out of range")
	default:
		r.fail(name, "is no number")
	}
	return time.Time{}
}

func (r *reader) text(name string) string {
	switch v := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberB:
		return string(v.Value)
	default:
		r.fail(name, "is no text")
	}
	return ""
}

func (r *reader) binary(name string) []byte {
	switch v := r.item[name].(type) {
	case nil:
	case *types.AttributeValueMemberB:
		return v.Value
	default:
		r.fail(name, "is not binary")
	}
	return nil
}

func (r *reader) object(name string) item {
	if v, ok := r.item[name].(*types.AttributeValueMemberM); ok {
		return v.Value
	}
	r.fail(name, "is no map")
	return nil
	// record decodes a record in a binary attribute. It reports whether the attribute exists.
}

// record decodes a record from a binary attribute; if there is none, it leaves the record alone.
func (r *reader) record(name string, read func(d *encoding.Decoder)) bool {
	b := r.binary(name)
	if b == nil || r.err != nil {
		return false
	}
	d := encoding.NewDecoder(b)
	read(d)
	if err := d.End(); err != nil {
		r.err = fmt.Errorf("attribute %s: %w", name, err)
		return false
	}
	return true
	// encoded returns a record as an attribute.
}

// encoded is a record as an attribute.
func encoded(write func(e *encoding.Encoder)) types.AttributeValue {
	e := &encoding.Encoder{}
	write(e)
	return binary(e.B)
}
