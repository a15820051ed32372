package config

import (
	"errors"
	"fmt"
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
		if field, ok := f["held"]; ok {
			p.add(field.line, field.path, "is only for admission sequence; this stream has %s", s.Admission)
		}
		if field, ok := f["gap"]; ok && s.log() == nil {
			p.add(field.line, field.path, "is only for admission sequence, or for a stream with a log; this stream has %s, and no log", s.Admission)
		}
	}
	if field, ok := f["held"]; ok && s.Pool != nil && s.Admission == record.BySequence {
		p.add(field.line, field.path, "has no meaning with a pool, which holds every early message: limits.ranges bounds how many ranges of them there are")
	}
	if field, ok := f["state"]; ok && s.Pool != nil {
		p.add(field.line, field.path, "has no meaning with a pool: its stream has no handler")
	}
	least := s.leastState()
	if path := n.path + ".state.retain"; s.State.Retain.Std() >= minRetention && s.State.Retain.Std() < least {
		p.add(p.lines[path], path, "must be at least %v, for which the group is remembered without a state", Duration(least))
	}
}

// leastState returns the shortest time that state.retain may be.
func (s Stream) leastState() time.Duration {
	return max(record.DefaultGroupRetention, s.Retention.Std(), s.logRetention())
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
		if d.Kind() == KindOnce && c.Name == "" {
			p.add(p.lines[path], path, "is another system: give this one a name, at the top of the file, as in name: eu. The other system distinguishes its senders by their names")
		}
		if _, ok := c.Streams[d.Local()]; d.Local() != "" && !ok {
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
	p.handlersTogether(c)
	p.ingressTogether(c)
	p.schedulesTogether(c)
}

func known(names []string) string {
	if len(names) == 0 {
		return "; none is configured"
	}
	return "; known are " + strings.Join(names, ", ")
}

// cycles reports each stream destination that closes a cycle, in which a message would be forwarded
// forever.
func (p *reader) cycles(c *Config) {
	done := map[string]bool{}
	var walk func(stream string, way []string)
	walk = func(stream string, way []string) {
		way = append(slices.Clone(way), stream)
		for _, name := range c.Streams[stream].Destinations {
			next := c.Destinations[name].Local()
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

// overtakes reports whether a message of the stream that is processed without the queue could
// overtake a queued one of its group on AWS.
func (s Stream) overtakes() bool {
	return s.Direct != nil && *s.Direct && s.Admission != record.BySequence && s.Order != OrderNone
}

// CheckDirect returns an error for each stream that is processed without the queue and needs a
// queue's order: on AWS its messages could overtake queued ones of their group, because no queue of
// SQS says whether it has any. An embedded system looks first, and keeps the order.
func (c *Config) CheckDirect() error {
	var errs []error
	for _, name := range c.StreamNames() {
		s := c.Streams[name]
		if s.overtakes() {
			errs = append(errs, fmt.Errorf("%s.direct: on AWS needs order: none or admission: sequence: a message could overtake a queued one of its group", join("streams", name)))
		}
	}
	return errors.Join(errs...)
}

// CheckRestores returns an error if the last restore is later than now: until then, a group that is
// forgotten and begins again would have the same epoch twice.
func (c *Config) CheckRestores(now time.Time) error {
	i := len(c.Restores) - 1
	if i < 0 || !c.Restores[i].After(now) {
		return nil
	}
	return fmt.Errorf("restores[%d]: %s is in the future: give the time at which you restore", i, c.Restores[i].Format(time.RFC3339))
}

// queueLife is how long a message can stay in an SQS queue.
const queueLife = 14 * day

// retryWarnings returns the warnings about a retry policy.
func retryWarnings(path string, r record.RetryPolicy) []string {
	if n := int(2 * r.For / r.Max); n > record.MaxTries { // the mean pause is half of Max
		return []string{fmt.Sprintf("%s.retry: needs about %d tries, and a queue of SQS allows %d: raise max, or lower for", path, n, record.MaxTries)}
	}
	return nil
}

// gapWarnings returns a warning if a number counts as missing while its message is still retried. A
// stream without a retry policy and with destinations has no handler in Go, as far as the file
// tells.
func gapWarnings(path string, s Stream, handled bool) []string {
	after, retry := s.Gap.After.Std(), s.Retry.Std().Or(record.MessageRetry())
	if after == 0 || after >= retry.For || !handled && s.Retry == (Retry{}) && len(s.Destinations) > 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s.gap.after: %v is shorter than retry.for, which is %v: a message whose handler fails counts as missing while it is still retried",
		path, s.Gap.After, Duration(retry.For))}
}

// StateWarnings returns a warning for each stream of a handler that does not set state.retain,
// because earlier versions deleted the states of such a stream.
func (c *Config) StateWarnings() []string {
	var out []string
	for _, name := range c.HandlerNames() {
		if s := c.Streams[name]; s.State.Retain == 0 {
			out = append(out, fmt.Sprintf("%s.state.retain: is not set: a state is kept until the handler deletes it, and earlier versions deleted it. Write retain: forever, or retain: %v to delete it that long after the last message of its group",
				join("streams", name), Duration(s.leastState())))
		}
	}
	return out
}

// MissingSecrets returns the destinations and handlers whose secrets are not there, in a stable
// order. A system on this machine does not start without them.
func (c *Config) MissingSecrets() []string {
	var out []string
	for _, name := range c.DestinationNames() {
		d := c.Destinations[name]
		if d.Key() == "" {
			continue
		}
		field := ".secret: "
		if d.Kind() == KindOnce {
			field = ".auth: "
		}
		if _, err := d.Key().Resolve(); err != nil && !errors.Is(err, ErrRemoteSecret) {
			out = append(out, join("destinations", name)+field+err.Error())
		}
	}
	for _, name := range c.HandlerNames() {
		h := c.Handlers[name]
		if h.Secret == "" {
			continue
		}
		if _, err := h.Secret.Resolve(); err != nil && !errors.Is(err, ErrRemoteSecret) {
			out = append(out, join("handlers", name)+".secret: "+err.Error())
		}
	}
	return out
}

// Warnings returns settings that are valid but probably mistakes, in a stable order.
func (c *Config) Warnings() []string {
	var out []string
	used := map[string]bool{}
	for _, name := range c.StreamNames() {
		s, path := c.Streams[name], join("streams", name)
		for _, d := range s.Destinations {
			used[d] = true
		}
		_, handled := c.Handlers[name]
		if len(s.Destinations) == 0 && s.log() == nil && !handled {
			out = append(out, path+": has no destinations: messages are remembered and go nowhere, unless a handler takes them")
		}
		if s.Retention != 0 && s.Retention.Std() < queueLife && s.Admission == record.ByKey {
			out = append(out, path+".retention: "+s.Retention.String()+" is shorter than the 14d that a message can wait in an SQS queue: "+
				"a copy that comes later runs again")
		}
		if s.overtakes() {
			out = append(out, path+".direct: a stack refuses it without order: none or admission: sequence: on AWS a message could overtake a queued one of its group")
		}
		if r := s.logRetention(); s.Pool != nil && r < record.DefaultLogRetention {
			out = append(out, fmt.Sprintf("%s.log.retain: %v is short for a stream with a pool: an entry that no session has read by then is lost", path, Duration(r)))
		}
		out = append(out, gapWarnings(path, s, handled)...)
		out = append(out, retryWarnings(path, s.Retry.Std().Or(record.MessageRetry()))...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Destinations)) {
		d, path := c.Destinations[name], join("destinations", name)
		if !used[name] {
			out = append(out, path+": no stream sends there")
		}
		if d.Webhook != "" && d.Secret == "" {
			out = append(out, path+": has no secret: its requests are not signed")
		}
		if d.Key() != "" && strings.HasPrefix(d.Once, "http://") {
			out = append(out, path+": sends its key without encryption: use https")
		}
		out = append(out, retryWarnings(path, d.Retry.Std().Or(record.EffectRetry()))...)
	}
	out = append(out, c.handlerWarnings()...)
	return append(out, c.ingressWarnings()...)
}
