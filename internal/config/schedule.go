package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/schedule"
)

// MaxSchedules is the largest number of schedules: their records are read once a minute.
const MaxSchedules = 100

// Schedule sends a message to a stream at each time of a cron expression.
type Schedule struct {
	// Cron are the times, see [schedule.Parse].
	Cron string `json:"cron" jsonschema:"minLength=1,description=Cron expression of 5 fields (minute hour day-of-month month day-of-week) or @hourly or @daily or @weekly or @monthly or @yearly."`
	// Timezone is the IANA name of the zone of the times. Defaults to UTC.
	Timezone string `json:"timezone,omitempty" jsonschema:"minLength=1,default=UTC,description=IANA name of the time zone of the cron expression as Europe/Berlin."`
	// Stream gets the messages.
	Stream string `json:"stream" jsonschema:"minLength=1,description=Stream that the messages belong to. Not one with sequence admission."`
	// Group is the group of the messages. Defaults to the name of the schedule.
	Group string `json:"group,omitempty" jsonschema:"minLength=1,description=Group of the messages. Default: the name of the schedule."`
	// Body is a YAML value, or nil if the messages have no body. See [Schedule.Content].
	Body any `json:"body,omitempty" jsonschema:"description=Body of the messages: any value which is sent as JSON; or text if content_type is not JSON. Default: none."`
	// ContentType is that of the body.
	ContentType string `json:"content_type,omitempty" jsonschema:"minLength=1,description=Content type of the body; then a body that is text is sent as it is. Default: application/json if there is a body."`
}

// Content returns the body of the messages and its content type. A text is sent as it is if a
// content type is given; every other value is sent as JSON.
func (s Schedule) Content() (body []byte, contentType string) {
	if s.Body == nil {
		return nil, ""
	}
	if text, ok := s.Body.(string); ok && s.ContentType != "" {
		return []byte(text), s.ContentType
	}
	body, err := encode(s.Body)
	if err != nil { // Parse has refused it
		return nil, ""
	}
	if s.ContentType != "" {
		return body, s.ContentType
	}
	return body, "application/json"
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the body is not part of a page
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Settings returns the schedule in the form of package schedule.
func (s Schedule) Settings(name string) schedule.Schedule {
	body, contentType := s.Content()
	return schedule.Schedule{Name: name, Cron: s.Cron, Zone: s.Timezone, Stream: s.Stream, Group: s.Group, Body: body, ContentType: contentType}
}

// ScheduleNames returns the names of the schedules, sorted.
func (c *Config) ScheduleNames() []string { return slices.Sorted(maps.Keys(c.Schedules)) }

// ScheduleSettings returns the schedules in the form of package schedule, sorted by name.
func (c *Config) ScheduleSettings() []schedule.Schedule {
	var out []schedule.Schedule
	for _, name := range c.ScheduleNames() {
		out = append(out, c.Schedules[name].Settings(name))
	}
	return out
}

func (p *reader) schedules(n node) map[string]Schedule {
	out := map[string]Schedule{}
	for _, f := range p.named(n) {
		out[f.key] = p.schedule(f.key, f.node)
	}
	if len(out) > MaxSchedules {
		p.add(n.line, n.path, "must be at most %d", MaxSchedules)
	}
	return out
}

func (p *reader) schedule(name string, n node) Schedule {
	p.lines[n.path] = n.line
	f := p.only(n, "cron", "timezone", "stream", "group", "body", "content_type")
	p.note(f)
	p.required(n, f, "cron", "stream")
	s := Schedule{
		Cron: strings.TrimSpace(p.textOf(f, "cron")), Timezone: p.textOf(f, "timezone"), Stream: p.textOf(f, "stream"),
		Group: p.textOf(f, "group"), ContentType: p.textOf(f, "content_type"),
	}
	p.times(f, s)
	if body, ok := f["body"]; ok {
		s.Body = p.value(body)
	}
	p.contentRules(f, s)
	x := s.Settings(name)
	if err := x.Check(); err != nil && s.Stream != "" && record.ValidStream(s.Stream) == nil {
		p.add(n.line, n.path, "is no message: %v", err)
	}
	return s
}

// times checks the fields that decide when messages are sent.
func (p *reader) times(f map[string]node, s Schedule) {
	zone, err := schedule.ParseZone(s.Timezone)
	if err != nil {
		p.add(f["timezone"].line, f["timezone"].path, "%v", err)
		return
	}
	if s.Cron == "" { // reported
		return
	}
	if _, err := schedule.Parse(s.Cron, zone); err != nil {
		p.add(f["cron"].line, f["cron"].path, "%v", err)
	}
}

// contentRules checks the body against its content type.
func (p *reader) contentRules(f map[string]node, s Schedule) {
	kind, given := f["content_type"]
	text, isText := s.Body.(string)
	switch _, hasBody := f["body"]; {
	case !given || s.ContentType == "":
	case !hasBody:
		p.add(kind.line, kind.path, "is for a body, and there is none")
	case !isText && !record.IsJSON(s.ContentType):
		p.add(f["body"].line, f["body"].path, "must be text, because content_type is %s", s.ContentType)
	case isText && record.IsJSON(s.ContentType) && !json.Valid([]byte(text)):
		p.add(f["body"].line, f["body"].path, "must be JSON, because content_type is %s: leave content_type out, and write a value", s.ContentType)
	}
}

// value returns a YAML value that JSON can have, or nil.
func (p *reader) value(n node) any {
	for _, part := range ast.Filter(ast.AnchorType, n.value) {
		p.add(lineOf(part, n.line), n.path, "must be a value that JSON has%s", unsupported(part))
		return nil
	}
	var v any
	err := yaml.NodeToValue(n.value, &v)
	if err == nil {
		_, err = encode(v)
	}
	if err != nil {
		p.add(n.line, n.path, "must be a value that JSON has%s", unsupported(n.value))
		return nil
	}
	return v
}

// schedulesTogether checks the streams of the schedules.
func (p *reader) schedulesTogether(c *Config) {
	for _, name := range c.ScheduleNames() {
		s, path := c.Schedules[name], join("schedules", name)+".stream"
		stream, ok := c.Streams[s.Stream]
		switch {
		case s.Stream == "": // reported
		case !ok:
			p.add(p.lines[path], path, "there is no stream %q%s", s.Stream, known(c.StreamNames()))
		case stream.Admission == record.BySequence:
			p.add(p.lines[path], path, "has admission sequence: the messages of a schedule have no numbers; use key or token")
		}
	}
}
