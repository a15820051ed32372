package ingress

import (
	"fmt"
	"maps"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/jsonpath"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// principals begins the principals of the messages of sources. No principal of the HTTP API begins
// so.
const principals = "ingress:"

// A Source reads the deliveries of one queue that is bound to a stream. It may be used
// concurrently.
type Source struct {
	name, stream string
	kind         config.SourceKind
	id           []jsonpath.Path
	group        jsonpath.Path
}

// New returns a source of a configuration. It returns an error if there is no such source, or a
// path is invalid.
func New(c *config.Config, name string) (*Source, error) {
	i, ok := c.Ingress[name]
	if !ok {
		return nil, fmt.Errorf("make source: the configuration has no ingress %q", name)
	}
	s := &Source{name: name, stream: i.StreamOf(name), kind: i.Kind()}
	paths := i.ID
	if len(paths) == 0 {
		switch s.kind { //nolint:exhaustive // the others have no default
		case config.SourceEventBridge:
			paths = config.Paths{"$.id"}
		case config.SourcePipes:
			paths = config.Paths{"$.eventID"}
		}
	}
	for _, text := range paths {
		p, err := jsonpath.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("make source %s: id %s %w", name, text, err)
		}
		s.id = append(s.id, p)
	}
	if i.Group == "" {
		return s, nil
	}
	p, err := jsonpath.Parse(i.Group)
	if err != nil {
		return nil, fmt.Errorf("make source %s: group %s %w", name, i.Group, err)
	}
	s.group = p
	return s, nil
}

// Principal returns the principal of the messages of the source.
func (s *Source) Principal() string { return principals + s.name }

// A Read is what one delivery contains.
type Read struct {
	// Messages is empty if the delivery says nothing, as the test of a new notification of S3. If
	// there are several, each has its own identity.
	Messages []record.Message
	// Origin is the source of the identity of a single message.
	Origin wire.Origin
}

// Read reads a delivery. If the error is not nil, it is a [*record.InvalidError], and the single
// message that is returned with it is for the dead-letter queue.
func (s *Source) Read(d *queue.Delivery) (Read, error) {
	out, err := s.read(d)
	if err != nil {
		return Read{Messages: []record.Message{s.Unread(d)}}, err
	}
	return out, nil
}

func (s *Source) read(d *queue.Delivery) (Read, error) {
	parts := []*queue.Delivery{plain(d)}
	var id string
	var err error
	switch s.kind { //nolint:exhaustive // the others send the body as it is
	case config.SourceS3:
		parts, err = s.records(parts[0])
	case config.SourceSNS:
		id, err = opened(parts[0])
	}
	if err != nil {
		return Read{}, err
	}
	var out Read
	for i, part := range parts {
		m, origin, err := s.message(part, id)
		if err != nil && len(parts) > 1 {
			err = invalid("body", fmt.Sprintf("record %d: %v", i, err))
		}
		if err != nil {
			return Read{}, err
		}
		out.Messages, out.Origin = append(out.Messages, m), origin
	}
	return out, nil
}

// plain copies a delivery whose attributes may be changed.
func plain(d *queue.Delivery) *queue.Delivery {
	part := *d
	part.Attributes = maps.Clone(d.Attributes)
	if part.Attributes == nil {
		part.Attributes = map[string]string{}
	}
	return &part
}

// message reads a delivery with one message. If neither an attribute nor a path says its identity,
// it is id.
func (s *Source) message(d *queue.Delivery, id string) (record.Message, wire.Origin, error) {
	if named := d.Attributes[wire.AttrStream]; named != "" && named != s.stream {
		return record.Message{}, 0, invalid(wire.AttrStream, "must be "+s.stream+", or be left out: the queue of ingress."+s.name+" is bound to that stream")
	}
	if err := s.identify(d); err != nil {
		return record.Message{}, 0, err
	}
	if id != "" && d.Attributes[wire.AttrID] == "" && d.Attributes[wire.AttrSource] == "" {
		d.Attributes[wire.AttrID] = id
	}
	m, origin, err := wire.FromQueue(d, wire.Defaults{Stream: s.stream}) // which trusts nobody
	if err != nil {
		return record.Message{}, 0, err
	}
	m.Principal, m.Content = s.Principal(), s.content(m.Body)
	if m.ContentType == "" && s.kind != config.SourceAccount && s.kind != config.SourceSNS {
		m.ContentType = "application/json"
	}
	return m, origin, nil
}

// identify sets the attributes of identity and group by their paths. An attribute that the sender
// has set stays.
func (s *Source) identify(d *queue.Delivery) error {
	id := d.Attributes[wire.AttrID] == "" && d.Attributes[wire.AttrSource] == "" && len(s.id) > 0
	group := d.Attributes[wire.AttrGroup] == "" && !s.group.IsZero()
	if !id && !group {
		return nil
	}
	doc, err := jsonpath.Decode([]byte(d.Body))
	if err != nil {
		return invalid("body", fmt.Sprintf("%v, and ingress.%s reads it by a path", err, s.name))
	}
	if id {
		parts := make([]string, len(s.id))
		for i, p := range s.id {
			text, err := doc.Text(p)
			if err != nil {
				return invalid("id", fmt.Sprintf("of ingress.%s: %v", s.name, err))
			}
			if parts[i] = text; len(s.id) > 1 {
				parts[i] = separated(text)
			}
		}
		d.Attributes[wire.AttrID] = record.Fit(strings.Join(parts, "/"))
	}
	if group {
		text, err := doc.Text(s.group)
		if err != nil {
			return invalid("group", fmt.Sprintf("of ingress.%s: %v", s.name, err))
		}
		d.Attributes[wire.AttrGroup] = record.Fit(text)
	}
	return nil
}

// separated escapes what separates the parts of an identity, so that a/b and c are not a and b/c.
func separated(part string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(part)
}

func invalid(field, rule string) *record.InvalidError {
	return &record.InvalidError{Field: field, Rule: rule}
}
