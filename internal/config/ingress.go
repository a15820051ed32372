package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/jsonpath"
	"github.com/effectively-once/once/internal/record"
)

// MaxIngress is the largest number of sources: their queues are named in a variable of the
// functions.
const MaxIngress = 20

// SourceKind is the kind of a source.
type SourceKind string

// The kinds of source. From is the number of an account if the kind is SourceAccount.
const (
	SourceEventBridge SourceKind = "eventbridge"
	SourceS3          SourceKind = "s3"
	SourceSNS         SourceKind = "sns"
	SourceScheduler   SourceKind = "scheduler"
	SourcePipes       SourceKind = "pipes"
	SourceAccount     SourceKind = "account"
)

// Ingress is a source outside of the system that sends to one stream over a queue of its own, and
// need not know the attributes of the SQS contract.
type Ingress struct {
	// From is an AWS service that sends, or the number of an account.
	From Sender `json:"from" jsonschema:"description=Who sends: eventbridge (rules) or s3 (event notifications) or sns (subscriptions) or scheduler or pipes (roles of this account) or the number of an AWS account."`
	// Stream that the messages belong to. Defaults to the name of the source.
	Stream string `json:"stream,omitempty" jsonschema:"minLength=1,description=Stream that the messages belong to. Default: the name of the source."`
	// ARNs of the rules, topics or buckets that may send. Defaults to all of this account.
	ARNs []string `json:"arns,omitempty" jsonschema:"uniqueItems=true,description=ARNs of the rules or topics or buckets that may send; a * stands for any characters. Default: all of this account. Only with eventbridge and s3 and sns."`
	// ID are the paths to the identity; several are joined.
	ID Paths `json:"id,omitempty" jsonschema:"description=Path of the identity in the JSON body as $.detail.order or a list of paths that are the identity together. The default depends on from."`
	// Group is the path to the group.
	Group string `json:"group,omitempty" jsonschema:"pattern=^\\$,description=Path of the group in the JSON body as $.detail.customer. The default depends on from."`
	// FIFO makes the queue first-in-first-out.
	FIFO bool `json:"fifo,omitempty" jsonschema:"description=Whether the queue is first-in-first-out. The MessageGroupId is the group then unless group is given. Not with s3. Default: false."`
}

// Sender is an AWS service, or the number of an account.
type Sender string

// Paths are the paths to the parts of an identity.
type Paths []string

// Kind returns the kind of the source.
func (i Ingress) Kind() SourceKind {
	if account().MatchString(string(i.From)) {
		return SourceAccount
	}
	return SourceKind(i.From)
}

// StreamOf returns the stream of a source with its name.
func (i Ingress) StreamOf(name string) string {
	if i.Stream != "" {
		return i.Stream
	}
	return name
}

// IngressNames returns the names of the sources, sorted.
func (c *Config) IngressNames() []string { return slices.Sorted(maps.Keys(c.Ingress)) }

//nolint:gochecknoglobals // compile-time tables
var (
	account = expression(`^[0-9]{12}$`)
	// arns has the form of the ARNs that a source can have.
	arns = map[SourceKind]func() *regexp.Regexp{
		SourceEventBridge: expression(`^arn:[a-z-]+:events:[^:]+:[0-9]{12}:rule/.+$`),
		SourceSNS:         expression(`^arn:[a-z-]+:sns:[^:]+:[0-9]{12}:[^:]+$`),
		SourceS3:          expression(`^arn:[a-z-]+:s3:::[^/]+$`),
	}
)

func (p *reader) ingress(n node) Ingress {
	p.lines[n.path] = n.line
	f := p.only(n, "from", "stream", "arns", "id", "group", "fifo")
	p.note(f)
	i := Ingress{Stream: p.textOf(f, "stream"), Group: p.textOf(f, "group")}
	if from, ok := f["from"]; ok {
		text, _ := p.scalar(from)
		i.From = Sender(text)
		known := []SourceKind{SourceEventBridge, SourceS3, SourceSNS, SourceScheduler, SourcePipes}
		if i.Kind() != SourceAccount && !slices.Contains(known, SourceKind(i.From)) {
			p.add(from.line, from.path, "must be eventbridge, s3, sns, scheduler, pipes, or the number of an AWS account, of 12 digits; each source has its own queue, so name one")
		}
	} else if f != nil {
		p.add(n.line, n.path+".from", "is required: eventbridge, s3, sns, scheduler, pipes, or the number of an AWS account")
	}
	if list, ok := f["arns"]; ok {
		i.ARNs = p.arns(list, i)
	}
	if id, ok := f["id"]; ok {
		i.ID = p.paths(id)
	}
	if group, ok := f["group"]; ok && i.Group != "" {
		p.path(group, i.Group)
	}
	if fifo, ok := f["fifo"]; ok {
		if set := p.yesOrNo(fifo); set != nil {
			i.FIFO = *set
		}
	}
	p.ingressRules(n, f, i)
	return i
}

func (p *reader) textOf(f map[string]node, key string) string {
	n, ok := f[key]
	return p.text(n, ok)
}

func (p *reader) arns(n node, i Ingress) []string {
	list := p.names(n)
	form, ok := arns[i.Kind()]
	if !ok {
		p.add(n.line, n.path, "is only for eventbridge, s3 and sns: %s sends with a role, or is an account", i.From)
		return list
	}
	for k, arn := range list {
		if arn != "" && !form().MatchString(arn) {
			item := n.path + index(k)
			p.add(p.lines[item], item, "must be the ARN of a %s, as %s", map[SourceKind]string{SourceEventBridge: "rule", SourceS3: "bucket", SourceSNS: "topic"}[i.Kind()],
				map[SourceKind]string{SourceEventBridge: "arn:aws:events:REGION:ACCOUNT:rule/NAME", SourceS3: "arn:aws:s3:::NAME", SourceSNS: "arn:aws:sns:REGION:ACCOUNT:NAME"}[i.Kind()])
		}
	}
	return list
}

// paths returns one path, or a list of paths.
func (p *reader) paths(n node) Paths {
	if text, ok := p.scalar(n); ok {
		p.path(n, text)
		return Paths{text}
	}
	wrong := len(p.list)
	out := Paths(p.names(n))
	for k, text := range out {
		if item := n.path + index(k); text != "" {
			p.path(node{line: p.lines[item], path: item}, text)
		}
	}
	if len(out) == 0 && len(p.list) == wrong {
		p.add(n.line, n.path, "must have at least one path")
	}
	return out
}

func (p *reader) path(n node, text string) {
	if _, err := jsonpath.Parse(text); err != nil {
		p.add(n.line, n.path, "%v", err)
	}
}

// ingressRules checks the fields of one source against each other.
func (p *reader) ingressRules(n node, f map[string]node, i Ingress) {
	switch id, given := f["id"]; {
	case i.Kind() == SourceS3 && given:
		p.add(id.line, id.path, "is not for s3: bucket, key, version, sequencer and name of the event are the identity")
	case i.Kind() == SourceScheduler && !given:
		p.add(n.line, n.path+".id", "is required with scheduler: put the schedule and its time into the input of the schedule, and name both, as [$.schedule, $.time]")
	}
	if fifo, ok := f["fifo"]; ok && i.FIFO && i.Kind() == SourceS3 {
		p.add(fifo.line, fifo.path, "is not for s3, which sends to no first-in-first-out queue")
	}
}

// ingressTogether checks the sources against the streams.
func (p *reader) ingressTogether(c *Config) {
	outputs := map[string]string{}
	for _, name := range c.IngressNames() {
		i, path := c.Ingress[name], join("ingress", name)
		at := path + ".stream"
		if p.lines[at] == 0 {
			at = path
		}
		s, ok := c.Streams[i.StreamOf(name)]
		switch {
		case !ok:
			p.add(p.lines[at], at, "there is no stream %q%s", i.StreamOf(name), known(c.StreamNames()))
		case s.Admission == record.ByToken:
			p.add(p.lines[at], at, "the stream has admission token: every message that comes over a queue would be unknown to it")
		case s.Admission == record.BySequence && !i.sendsAttributes():
			p.add(p.lines[at], at, "the stream has admission sequence, and %s numbers no messages", i.From)
		}
		output := OutputName(name)
		if other, taken := outputs[output]; taken || output == "Fifo" {
			p.add(p.lines[path], path, "has the same output of the stack as %s: rename it", map[bool]string{true: other, false: "the queue ingress.fifo"}[taken])
		}
		outputs[output] = name
	}
	if n := len(c.Ingress); n > MaxIngress {
		p.add(p.lines["ingress"], "ingress", "must have at most %d sources; it has %d", MaxIngress, n)
	}
}

// sendsAttributes reports whether messages of the source can have attributes of the SQS contract.
func (i Ingress) sendsAttributes() bool {
	return i.Kind() == SourceSNS || i.Kind() == SourceAccount
}

// OutputName returns a name as a part of the name of an output of CloudFormation: its letters and
// digits, each word with a capital.
func OutputName(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '_' || r == '-' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// ingressWarnings returns the sources that are valid but probably mistakes.
func (c *Config) ingressWarnings() []string {
	var out []string
	for _, name := range c.IngressNames() {
		i, path := c.Ingress[name], join("ingress", name)
		s := c.Streams[i.StreamOf(name)]
		if s.Admission == record.BySequence {
			out = append(out, path+": the stream has admission sequence: every message needs the attributes once-source and once-sequence")
		} else if i.sendsAttributes() && len(i.ID) == 0 {
			out = append(out, path+": has no id: a message without the attribute once-id"+map[bool]string{true: ", if delivered raw,", false: ""}[i.Kind() == SourceSNS]+
				" has the id of the queue, which is another one if the sender repeats it")
		}
		if i.Group != "" && s.Order == OrderNone {
			out = append(out, path+".group: the stream has order none, so its groups keep no order")
		}
		if i.FIFO && s.Order == OrderNone {
			out = append(out, path+".fifo: the stream has order none: the order of the queue is paid for and not used")
		}
	}
	return out
}
