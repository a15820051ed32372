package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// sent is one message as the client intended it.
type sent struct {
	id          string
	group       string // empty if the sender named none
	source      string
	sequence    uint64
	contentType string
	headers     map[string]string
	body        []byte
}

// identity returns the id under which the effect of a message arrives.
func (m *sent) identity() string {
	if m.id == "" {
		return fmt.Sprintf("%s/0/%d", m.source, m.sequence)
	}
	return m.id
}

// line is one line of a file destination.
type line struct {
	Stream      string            `json:"stream"`
	Group       string            `json:"group"`
	Number      uint64            `json:"number"`
	ID          string            `json:"id"`
	Source      string            `json:"source"`
	Epoch       uint64            `json:"epoch"`
	Sequence    uint64            `json:"sequence"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        json.RawMessage   `json:"body"`
	BodyBase64  string            `json:"body_base64"`
}

// readLines reads a file destination. A truncated line, or one that is not a JSON object of the
// fields above, is an error.
func readLines(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []line
	for r := bufio.NewReader(file); ; {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d %.100q: %w", len(lines)+1, text, err)
		}
		var l line
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("line %d %.100q: %w", len(lines)+1, text, err)
		}
		lines = append(lines, l)
	}
}

// verdict collects problems; it prints the first few in full.
type verdict struct{ problems []string }

func (v *verdict) add(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *verdict) report(t *testing.T) {
	t.Helper()
	for i, p := range v.problems {
		if i == 10 {
			t.Errorf("and %d problems more", len(v.problems)-i)
			return
		}
		t.Error(p)
	}
}

// judgeLines checks that a file destination has exactly one line for each message, with its
// content, in number order within each group, and numbered sources in order from 1.
func judgeLines(stream string, want []sent, lines []line) *verdict {
	v := &verdict{}
	open := map[string]*sent{}
	for i := range want {
		open[want[i].identity()] = &want[i]
	}
	last := map[string]uint64{}
	next := map[string]uint64{}
	count := map[string]int{}
	for i, l := range lines {
		if l.Stream != stream {
			continue
		}
		count[l.ID]++
		m, ok := open[l.ID]
		if !ok {
			v.add("line %d: nobody sent %q", i+1, l.ID)
			continue
		}
		if count[l.ID] > 1 {
			v.add("line %d: %s is there for the %d. time", i+1, l.ID, count[l.ID])
			continue
		}
		v.content(i+1, m, &l)
		if l.Number > 0 && l.Number <= last[l.Group] {
			v.add("line %d: number %d of group %s after %d", i+1, l.Number, l.Group, last[l.Group])
		}
		last[l.Group] = l.Number
		if m.source != "" {
			if next[m.source]++; l.Sequence != next[m.source] {
				v.add("line %d: %s comes with %d where %d is next", i+1, m.source, l.Sequence, next[m.source])
			}
		}
	}
	for id := range open {
		if count[id] == 0 {
			v.add("%s is missing", id)
		}
	}
	return v
}

// content compares a line with the sent message.
func (v *verdict) content(n int, m *sent, l *line) {
	if l.Group != m.group && m.group != "" || l.Source != m.source || l.Sequence != m.sequence || l.ContentType != m.contentType {
		v.add("line %d: %s came out as group %q, source %q, sequence %d, %s", n, m.identity(), l.Group, l.Source, l.Sequence, l.ContentType)
	}
	for name, value := range m.headers {
		if l.Headers[name] != value {
			v.add("line %d: %s has %s: %q, not %q", n, m.identity(), name, l.Headers[name], value)
		}
	}
	got, err := l.content()
	if err != nil {
		v.add("line %d: %s: %v", n, m.identity(), err)
		return
	}
	if !bytes.Equal(got, plain(m.body, m.contentType)) {
		v.add("line %d: %s has another body: %.100q, not %.100q", n, m.identity(), got, m.body)
	}
}

// content returns a line's body: JSON without white space, or any other body unchanged.
func (l *line) content() ([]byte, error) {
	switch {
	case l.BodyBase64 != "":
		return base64.StdEncoding.DecodeString(l.BodyBase64)
	case l.ContentType == "application/json":
		return plain(l.Body, l.ContentType), nil
	}
	var text string
	err := json.Unmarshal(l.Body, &text)
	return []byte(text), err
}

// plain removes the white space from JSON.
func plain(body []byte, contentType string) []byte {
	var b bytes.Buffer
	if contentType != "application/json" || json.Compact(&b, body) != nil {
		return body
	}
	return b.Bytes()
}

// judgePosts checks the requests to a receiver that remembers webhook-ids: each message under one
// webhook-id of its own with its content, and the first copies in number order within each group.
func judgePosts(want []sent, posts []post) *verdict {
	v := &verdict{}
	open := map[string]*sent{}
	for i := range want {
		open[want[i].identity()] = &want[i]
	}
	identity := map[string]string{} // by message
	message := map[string]string{}  // by webhook-id
	last := map[string]uint64{}
	for _, p := range posts {
		m, ok := open[p.id]
		if !ok {
			v.add("webhook %s: nobody sent %q", p.webhookID, p.id)
			continue
		}
		if !bytes.Equal(p.body, m.body) {
			v.add("webhook %s: %s has another body", p.webhookID, p.id)
		}
		first := message[p.webhookID] == ""
		if !first && message[p.webhookID] != p.id {
			v.add("webhook %s is both %s and %s", p.webhookID, message[p.webhookID], p.id)
		}
		if identity[p.id] != "" && identity[p.id] != p.webhookID {
			v.add("%s has two effects: %s and %s", p.id, identity[p.id], p.webhookID)
		}
		identity[p.id], message[p.webhookID] = p.webhookID, p.id
		if first && p.number > 0 {
			if p.number <= last[p.group] {
				v.add("webhook %s: first seen after number %d of group %s", p.webhookID, last[p.group], p.group)
			}
			last[p.group] = p.number
		}
	}
	for id := range open {
		if identity[id] == "" {
			v.add("webhook: %s is missing", id)
		}
	}
	return v
}
