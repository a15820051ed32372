package config

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// minRetention is longer than senders need to retry, so that a stream does not forget messages too
// early.
const minRetention = time.Second

// streamRules checks the fields of one stream against each other.
func (p *reader) streamRules(n node, f map[string]node, s Stream) {
	if s.Admission == record.BySequence && s.Order == OrderNone {
		p.add(f["order"].line, n.path+".order", "none contradicts admission sequence, which is an order")
	}
	if s.Admission != record.BySequence && s.Admission != "" {
		for _, key := range []string{"gap", "held"} {
			if field, ok := f[key]; ok {
				p.add(field.line, field.path, "is only for admission sequence; this stream has %s", s.Admission)
			}
		}
	}
	if r, ok := f["retention"]; ok && s.Retention.Std() >= minDuration && s.Retention.Std() < minRetention {
		p.add(r.line, r.path, "must be at least %v", minRetention)
	}
}

// together checks references across the file.
func (p *reader) together(c *Config) {
	for _, name := range c.StreamNames() {
		path := join("streams", name) + ".destinations"
		for i, d := range c.Streams[name].Destinations {
			item := path + index(i)
			if _, ok := c.Destinations[d]; !ok && d != "" {
				p.add(p.lines[item], item, "there is no destination %q%s", d, known(c.DestinationNames()))
			}
		}
	}
	files := map[string]string{}
	for _, name := range c.DestinationNames() {
		d, path := c.Destinations[name], join("destinations", name)
		if _, ok := c.Streams[d.Stream]; d.Stream != "" && !ok {
			p.add(p.lines[path+".stream"], path+".stream", "there is no stream %q%s", d.Stream, known(c.StreamNames()))
		}
		if d.File == "" || d.File == "-" {
			continue
		}
		clean := filepath.Clean(d.File)
		if other, ok := files[clean]; ok {
			p.add(p.lines[path+".file"], path+".file", "is the file of destination %s already: one file has one writer", other)
		}
		files[clean] = name
	}
	p.cycles(c)
}

func known(names []string) string {
	if len(names) == 0 {
		return "; none is configured"
	}
	return "; known are " + strings.Join(names, ", ")
}

// cycles reports each stream destination that closes a cycle, in which a message would be forwarded
// for ever.
func (p *reader) cycles(c *Config) {
	done := map[string]bool{}
	var walk func(stream string, way []string)
	walk = func(stream string, way []string) {
		way = append(slices.Clone(way), stream)
		for _, name := range c.Streams[stream].Destinations {
			next := c.Destinations[name].Stream
			if next == "" || done[next] {
				continue
			}
			if i := slices.Index(way, next); i >= 0 {
				path := join("destinations", name) + ".stream"
				p.add(p.lines[path], path, "closes a circle: %s -> %s", strings.Join(way[i:], " -> "), next)
				continue
			}
			walk(next, way)
		}
		done[stream] = true
	}
	for _, stream := range c.StreamNames() {
		if !done[stream] {
			walk(stream, nil)
		}
	}
}

// queueLife is how long a message can stay in an SQS queue.
const queueLife = 14 * day

// Warnings returns settings that are valid but probably mistakes, in a stable order.
func (c *Config) Warnings() []string {
	var out []string
	used := map[string]bool{}
	for _, name := range c.StreamNames() {
		s, path := c.Streams[name], join("streams", name)
		for _, d := range s.Destinations {
			used[d] = true
		}
		if len(s.Destinations) == 0 {
			out = append(out, path+": has no destinations: messages are remembered and go nowhere, unless a Go handler takes them")
		}
		if s.Retention != 0 && s.Retention.Std() < queueLife && s.Admission == record.ByKey {
			out = append(out, path+".retention: "+s.Retention.String()+" is shorter than the 14d that a message can wait in an SQS queue: "+
				"a copy that comes later runs again")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		d, path := c.Destinations[name], join("destinations", name)
		if !used[name] {
			out = append(out, path+": no stream sends there")
		}
		if d.Webhook != "" && d.Secret == "" {
			out = append(out, path+": has no secret: its requests are not signed")
		}
		if d.Secret != "" {
			if _, err := d.Secret.Resolve(); err != nil && !errors.Is(err, ErrRemoteSecret) {
				out = append(out, path+".secret: "+err.Error())
			}
		}
	}
	return out
}
