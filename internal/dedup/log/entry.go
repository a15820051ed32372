package log

import (
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// Entry returns the entry with the fields of its message. Its number is that of the log.
func (x *Encoded) Entry() (record.Entry, error) {
	out := record.Entry{Number: x.offset(0).Number, Principal: x.Principal}
	c := cursor{b: x.fields}
	for range c.count(5) {
		switch name := string(c.text()); name {
		case "kind":
			out.Kind = record.EntryKind(c.text())
		case "time":
			if err := out.Time.UnmarshalText(c.text()); err != nil {
				return out, err
			}
		case "id":
			out.ID = string(c.text())
		case "redelivery_of":
			out.RedeliveryOf = string(c.text())
		case "group":
			out.Group = string(c.text())
		case "source":
			out.Source = string(c.text())
		case "epoch":
			out.Epoch = c.head(0)
		case "sequence":
			out.Sequence = c.head(0)
		case "content_type":
			out.ContentType = string(c.text())
		case "headers":
			out.Headers = map[string]string{}
			for range c.count(5) {
				header := string(c.text())
				out.Headers[header] = string(c.text())
			}
		case "body":
			out.Body = append([]byte(nil), c.bytes()...)
		case "":
			c.fail()
		default:
			c.skip()
		}
	}
	if c.bad || len(c.b) > 0 {
		return record.Entry{}, fmt.Errorf("%w: entry %d of a log", record.ErrCorrupt, x.Number)
	}
	return out, nil
}

// skip passes a value.
func (c *cursor) skip() { c.appendValue(nil) }
