package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/effectively-once/once/internal/record"
)

// Parse reads and checks a configuration; name is the file name in problems. The error is an
// [*InvalidError].
func Parse(name string, data []byte) (*Config, error) {
	p := &reader{problems: problems{file: name}, lines: map[string]int{}}
	body, ok := p.document(data)
	if !ok {
		return nil, p.err()
	}
	c := &Config{Streams: map[string]Stream{}, Destinations: map[string]Destination{}}
	top := p.only(node{body, lineOf(body, 1), ""}, "name", "streams", "destinations", "handlers", "ingress", "schedules", "restores", "dead_letters", "server")
	p.note(top)
	if n, ok := top["name"]; ok {
		if c.Name = p.text(n, ok); c.Name != "" && record.ValidStream(c.Name) != nil {
			p.add(n.line, n.path, "must be 1 to %d letters, digits, dots, dashes or underscores, starting with a letter or a digit", record.MaxStreamName)
		}
	}
	if n, ok := top["streams"]; ok {
		for _, f := range p.named(n) {
			c.Streams[f.key] = p.stream(f.node)
		}
	}
	if n, ok := top["destinations"]; ok {
		for _, f := range p.named(n) {
			c.Destinations[f.key] = p.destination(f.node)
		}
	}
	if n, ok := top["handlers"]; ok {
		c.Handlers = map[string]Handler{}
		for _, f := range p.named(n) {
			c.Handlers[f.key] = p.handler(f.node)
		}
	}
	if n, ok := top["ingress"]; ok {
		c.Ingress = map[string]Ingress{}
		for _, f := range p.named(n) {
			c.Ingress[f.key] = p.ingress(f.node)
		}
	}
	if n, ok := top["schedules"]; ok {
		c.Schedules = p.schedules(n)
	}
	if n, ok := top["restores"]; ok {
		c.Restores = p.restores(n)
	}
	if n, ok := top["dead_letters"]; ok {
		f := p.only(n, "retain", "most")
		c.DeadLetters = DeadLetters{Retain: p.retention(f, "retain"), Most: p.numberTo(f, "most", maxBound)}
	}
	if n, ok := top["server"]; ok {
		c.Server = p.server(n)
	}
	if len(c.Streams) == 0 && len(p.list) == 0 {
		p.add(1, "streams", "must name at least one stream")
	}
	p.together(c)
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// reader keeps the lines of fields, for rules that compare several.
type reader struct {
	problems
	lines map[string]int
}

// document parses the YAML; it returns false if there is nothing to check.
func (p *reader) document(data []byte) (ast.Node, bool) {
	if len(data) > MaxSize {
		p.add(1, "", "must be at most %d bytes", MaxSize)
		return nil, false
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		p.syntax(err, data)
		return nil, false
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch {
	case len(bodies) == 0:
		p.add(1, "streams", "must name at least one stream")
		return nil, false
	case len(bodies) > 1:
		p.add(lineOf(bodies[1], 1), "", "must be one document; a second one begins here")
		return nil, false
	}
	return bodies[0], true
}

// unquoted finds a value that YAML does not take for text because of how it begins, such as a cron
// expression.
//
//nolint:gochecknoglobals // a constant, compiled when it is needed
var unquoted = expression(`(^|[:,{\[-])\s+([*@])`)

func (p *reader) syntax(err error, data []byte) {
	line, text := 1, err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		text = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			line = max(t.Position.Line, 1)
		}
	}
	if lines := strings.Split(string(data), "\n"); line <= len(lines) {
		if begin := unquoted().FindStringSubmatch(lines[line-1]); begin != nil {
			text += fmt.Sprintf(`; a value that begins with %s needs quotes, such as "@daily" or "* * * * *"`, begin[2])
		}
	}
	p.add(line, "", "not YAML: %s", text)
}

// named returns the entries of a mapping whose keys are names.
func (p *reader) named(n node) []field {
	fields := p.fields(n)
	return slices.DeleteFunc(fields, func(f field) bool {
		var invalid *record.InvalidError
		if err := record.ValidStream(f.key); errors.As(err, &invalid) {
			p.add(f.at, f.path, "is not a name: it %s", invalid.Rule)
			return true
		}
		return false
	})
}

func (p *reader) stream(n node) Stream {
	p.lines[n.path] = n.line
	f := p.only(n, "admission", "order", "retention", "state", "retry", "gap", "held", "limits", "log", "pool", "direct", "destinations")
	p.note(f)
	s := Stream{
		Admission: choice(p, f, "admission", record.ByKey, record.ByToken, record.BySequence),
		Order:     choice(p, f, "order", OrderGroup, OrderNone),
		Retention: p.retention(f, "retention"),
	}
	if state, ok := f["state"]; ok {
		s.State.Retain = p.stateRetain(state)
	}
	s.Retry = p.retry(f)
	if gap, ok := f["gap"]; ok {
		s.Gap = p.gap(gap)
	}
	if held, ok := f["held"]; ok {
		s.Held = p.held(held)
	}
	if limits, ok := f["limits"]; ok {
		s.Limits = p.limits(limits)
	}
	if log, ok := f["log"]; ok {
		s.Log = &Log{p.retain(log)}
	}
	if pool, ok := f["pool"]; ok {
		s.Pool = p.pool(pool)
	}
	if direct, ok := f["direct"]; ok {
		s.Direct = p.yesOrNo(direct)
	}
	if list, ok := f["destinations"]; ok {
		s.Destinations = p.names(list)
	}
	p.streamRules(n, f, s)
	return s
}

func (p *reader) retry(of map[string]node) Retry {
	n, ok := of["retry"]
	if !ok {
		return Retry{}
	}
	f := p.only(n, "first", "max", "for")
	r := Retry{First: p.duration(f, "first"), Max: p.duration(f, "max"), For: p.duration(f, "for")}
	if r.Max != 0 && r.First > r.Max {
		p.add(f["first"].line, f["first"].path, "must be at most max, which is %v", r.Max)
	}
	for _, key := range []string{"first", "max"} {
		if field, given := f[key]; given && max(r.First, r.Max).Std() > record.MaxPause {
			p.add(field.line, field.path, "must be at most %v, because SQS hides a message for at most 12h", Duration(record.MaxPause))
			break
		}
	}
	if field, given := f["for"]; given && r.For.Std() > record.MaxRetry {
		p.add(field.line, field.path, "must be at most %v, because a queue keeps a message for 14d", Duration(record.MaxRetry))
	}
	return r
}

func (p *reader) gap(n node) Gap {
	f := p.only(n, "policy", "after")
	g := Gap{
		Policy: choice(p, f, "policy", record.GapWait, record.GapSkip, record.GapFail),
		After:  p.duration(f, "after"),
	}
	after, given := f["after"]
	switch {
	case g.Policy == record.GapWait && given:
		p.add(after.line, after.path, "is not allowed with policy wait, which never acts")
	case (g.Policy == record.GapSkip || g.Policy == record.GapFail) && !given:
		p.add(f["policy"].line, n.path+".after", "is required with policy %s: when does it act?", g.Policy)
	}
	return g
}

// maxBound limits numbers to the range of an int on every platform.
const maxBound = 1_000_000_000

func (p *reader) held(n node) Held {
	f := p.only(n, "count", "bytes", "distance")
	return Held{
		Count:    int(p.number(f, "count")), //nolint:gosec // at most maxBound
		Bytes:    p.size(f, "bytes"),
		Distance: p.number(f, "distance"),
	}
}

func (p *reader) limits(n node) Limits {
	f := p.only(n, "sources", "targets", "names", "ranges")
	return Limits{
		Sources: int(p.number(f, "sources")), //nolint:gosec // at most maxBound
		Targets: int(p.number(f, "targets")), //nolint:gosec // at most maxBound
		Names:   p.size(f, "names"),
		Ranges:  int(p.number(f, "ranges")), //nolint:gosec // at most maxBound
	}
}

func (p *reader) stateRetain(n node) Duration {
	f := p.only(n, "retain")
	p.note(f)
	if text, _ := p.scalar(f["retain"]); text == Forever.String() {
		return Forever
	}
	return p.retention(f, "retain")
}

// retain reads a policy that has only a time.
func (p *reader) retain(n node) Duration {
	f := p.only(n, "retain")
	p.note(f)
	return p.retention(f, "retain")
}

// retention reads how long something is remembered.
func (p *reader) retention(f map[string]node, key string) Duration {
	d := p.duration(f, key)
	if d.Std() >= minDuration && d.Std() < minRetention {
		p.add(f[key].line, f[key].path, "must be at least %v", minRetention)
	}
	return d
}

// maxPartitions bounds the records that a pool reads for each deal.
const maxPartitions = 256

func (p *reader) pool(n node) *Pool {
	f := p.only(n, "partitions", "window", "deal", "attempts", "poison")
	partitions := p.number(f, "partitions")
	if partitions > maxPartitions {
		p.add(f["partitions"].line, f["partitions"].path, "must be at most %d", maxPartitions)
	}
	return &Pool{
		Partitions: int(partitions), //nolint:gosec // at most maxBound
		Window:     p.number(f, "window"),
		Deal:       choice(p, f, "deal", DealRange, DealPartition),
		Attempts:   p.number(f, "attempts"),
		Poison:     choice(p, f, "poison", PoisonStop, PoisonDeadLetter),
	}
}

func (p *reader) size(f map[string]node, key string) Size {
	n, ok := f[key]
	if !ok {
		return 0
	}
	text, scalar := p.scalar(n)
	size, err := ParseSize(text)
	switch {
	case !scalar || err != nil:
		p.add(n.line, n.path, "%v", errSize)
	case size < 1 || size > math.MaxInt32:
		p.add(n.line, n.path, "must be between 1B and 2GB")
	}
	return size
}

func (p *reader) number(f map[string]node, key string) uint64 {
	n, ok := f[key]
	if !ok {
		return 0
	}
	text, _ := p.scalar(n)
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil || value < 1 || value > maxBound {
		p.add(n.line, n.path, "must be a whole number between 1 and %d", maxBound)
		return 0
	}
	return value
}

// Limits on durations: shorter ones are mistakes, longer ones overflow sums of times.
const (
	minDuration = time.Millisecond
	maxDuration = 3660 * day
)

func (p *reader) duration(f map[string]node, key string) Duration {
	n, ok := f[key]
	if !ok {
		return 0
	}
	text, _ := p.scalar(n)
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		p.add(n.line, n.path, "%v", err)
	case d.Std() < minDuration || d.Std() > maxDuration:
		p.add(n.line, n.path, "must be between %v and %v", Duration(minDuration), Duration(maxDuration))
	}
	return d
}

// choice returns one of several words; the first is the default.
func choice[T ~string](p *reader, f map[string]node, key string, words ...T) T {
	n, ok := f[key]
	if !ok {
		return words[0]
	}
	text, _ := p.scalar(n)
	if slices.Contains(words, T(text)) {
		return T(text)
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	p.add(n.line, n.path, "must be one of %s", strings.Join(list, ", "))
	return ""
}

// names returns a list of names without repetitions.
func (p *reader) names(n node) []string {
	var out []string
	for _, item := range p.items(n) {
		p.lines[item.path] = item.line
		name := p.text(item, true)
		if name != "" && slices.Contains(out, name) {
			p.add(item.line, item.path, "names %s a second time", name)
		}
		out = append(out, name)
	}
	return out
}

// restores returns the times of restores, which have to be in their order.
func (p *reader) restores(n node) Restores {
	items, first := p.items(n), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // before this product
	if len(items) > record.MaxRestores {
		p.add(n.line, n.path, "must be at most %d", record.MaxRestores)
		return nil
	}
	var out Restores
	for _, item := range items {
		text := p.text(item, true)
		at, err := time.Parse(time.RFC3339, text)
		switch {
		case text == "": // reported
			continue
		case err != nil:
			p.add(item.line, item.path, "must be a time with its zone, as in 2026-11-26T14:05:00Z")
			continue
		case at.Before(first):
			p.add(item.line, item.path, "must not be before %s", first.Format(time.RFC3339))
			continue
		case len(out) > 0 && !at.After(out[len(out)-1]):
			p.add(item.line, item.path, "must be after the restore before it")
			continue
		}
		out = append(out, at.UTC())
	}
	return out
}

// note records the lines of fields, for rules that compare several.
func (p *reader) note(f map[string]node) {
	for _, n := range f {
		p.lines[n.path] = n.line
	}
}

// expression returns a regular expression that is compiled when it is first used: the functions on
// AWS start faster without those that they do not use.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
