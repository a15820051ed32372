package link

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// A line is one delivery on its way: a line of JSON for a batch, and its result.
type line struct {
	data []byte // nil if there is nothing to send
	key  string
	// void says that it takes the number of a refused delivery, whose refusal it carries.
	void bool
	err  error
	// refused says that the other system will never take the delivery. voids says that a void
	// message has to take its number.
	refused *record.RefusedError
	voids   bool
}

// content is the message of a line.
type content struct {
	Key         string            `json:"key"`
	Group       string            `json:"group,omitempty"`
	Source      string            `json:"source,omitempty"`
	Epoch       uint64            `json:"epoch,omitempty"`
	Sequence    uint64            `json:"sequence,omitempty"`
	DependsOn   map[string]uint64 `json:"depends_on,omitempty"`
	Via         []string          `json:"via"`
	Void        bool              `json:"void,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        []byte            `json:"body_base64,omitempty"`
}

// line returns a delivery as a line.
func (s *Sender) line(d *record.Delivery) *line {
	c := s.content(d)
	if len(d.Effect.Via) >= record.MaxVia {
		detail := fmt.Sprintf("the message came through %d systems, and at most %d are allowed: %s", len(d.Effect.Via), record.MaxVia, strings.Join(d.Effect.Via, " -> "))
		return &line{refused: &record.RefusedError{Reason: record.ReasonLoop, Detail: detail}, voids: d.Sequence > 0}
	}
	if size := len(d.Effect.Body); size > record.MaxBody {
		detail := fmt.Sprintf("a body of %d bytes: another system takes at most %d", size, record.MaxBody)
		return &line{refused: &record.RefusedError{Reason: record.ReasonInvalid, Detail: detail}, voids: d.Sequence > 0}
	}
	c.ContentType, c.Body = d.Effect.ContentType, d.Effect.Body
	if len(d.Effect.Headers) > 0 {
		c.Headers = make(map[string]string, len(d.Effect.Headers))
		for name, value := range d.Effect.Headers {
			c.Headers[name] = strings.Trim(value, " ") // as HTTP does
		}
	}
	if d.Sequence > 0 {
		c.DependsOn = d.Effect.DependsOn
	}
	return c.line(&line{voids: d.Sequence > 0})
}

// void returns a void message under the number of a refused delivery.
func (s *Sender) void(d *record.Delivery, refused *record.RefusedError) *line {
	c := s.content(d)
	c.Via, c.Void = c.Via[len(c.Via)-1:], true
	return c.line(&line{refused: refused, void: true})
}

func (c *content) line(l *line) *line {
	data, err := json.Marshal(c)
	if err != nil { // it has only texts and numbers
		l.err = fmt.Errorf("describe message: %w", err)
		return l
	}
	l.key, l.data = c.Key, append(data, '\n')
	return l
}

// content returns what identifies a delivery at the other system.
func (s *Sender) content(d *record.Delivery) *content {
	prefix := s.config.System + "/" + s.config.Destination + "/"
	c := &content{Key: prefix + d.Identity, Group: s.config.Group, Via: append(slices.Clone(d.Effect.Via), s.config.System)}
	if d.Number > 0 {
		c.Key += "@" + strconv.FormatUint(d.Incarnation, 10)
	}
	c.Key = record.Fit(c.Key)
	c.Group = cmp.Or(c.Group, d.Target)
	if d.Sequence == 0 {
		return c
	}
	source := prefix + d.Stream + "/" + d.Group
	// deliveries are numbered by target, and with a fixed group several targets are one group
	// there
	if s.config.Group != "" && d.Target != d.Group {
		sum := sha256.Sum256([]byte(d.Target))
		source += "~" + hex.EncodeToString(sum[:])
	}
	c.Source, c.Epoch, c.Sequence = record.Fit(source), d.Incarnation, d.Sequence
	return c
}
