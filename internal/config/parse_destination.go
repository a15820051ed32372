package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/effectively-once/once/internal/record"
)

func (p *reader) destination(n node) Destination {
	p.lines[n.path] = n.line
	kinds := []string{"file", "webhook", "sqs", "sns", "eventbridge", "stream", "once"}
	f := p.only(n, append(kinds, "secret", "group", "auth", "header", "relay", "retry")...)
	p.note(f)
	text := func(key string) string {
		value, ok := f[key]
		return p.text(value, ok)
	}
	d := Destination{
		File: text("file"), Webhook: text("webhook"), Secret: Secret(text("secret")),
		SQS: text("sqs"), SNS: text("sns"), EventBridge: text("eventbridge"), Stream: text("stream"),
		Once: text("once"), Group: text("group"), Auth: Secret(text("auth")), Header: text("header"),
	}
	if relay, ok := f["relay"]; ok {
		d.Relay = p.yesOrNo(relay)
	}
	d.Retry = p.retry(f)
	given := slices.DeleteFunc(kinds, func(k string) bool { _, ok := f[k]; return !ok })
	if _, linked := f["once"]; linked { // stream is not its kind
		given = slices.DeleteFunc(given, func(k string) bool { return k == "stream" })
	}
	if f != nil && len(given) != 1 {
		p.add(n.line, n.path, "must have exactly one of file, webhook, sqs, sns, eventbridge, stream, once; it has %s", orNone(given))
	}
	p.destinationRules(f, d)
	p.linkRules(n, f, d)
	return d
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " and ")
}

func (p *reader) destinationRules(f map[string]node, d Destination) {
	if n, ok := f["webhook"]; ok && d.Webhook != "" {
		if rule := badURL(d.Webhook); rule != "" {
			p.add(n.line, n.path, "%s", rule)
		}
	}
	if n, ok := f["secret"]; ok && d.Secret != "" {
		p.secretPlace(n, d.Secret)
		if _, hook := f["webhook"]; !hook {
			p.add(n.line, n.path, "is only for webhooks")
		}
	}
	for _, key := range []string{"sqs", "sns", "eventbridge"} {
		if n, ok := f[key]; ok {
			text, _ := p.scalar(n)
			if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
				p.add(n.line, n.path, "must not contain white space")
			}
		}
	}
}

// secretPlace checks that a text is the location of a secret.
func (p *reader) secretPlace(n node, s Secret) {
	place, name, _ := strings.Cut(string(s), ":")
	if !slices.Contains(secretPlaces(), place) || name == "" {
		p.add(n.line, n.path, "must say where the secret is, as env:NAME, file:PATH, secretsmanager:NAME or ssm:NAME; a secret itself has no place in a configuration")
	}
}

// linkRules checks the fields of a destination that is another system.
func (p *reader) linkRules(n node, f map[string]node, d Destination) {
	if _, linked := f["once"]; !linked {
		for _, key := range []string{"group", "auth", "header", "relay"} {
			if field, ok := f[key]; ok {
				p.add(field.line, field.path, "is only for another system, with once")
			}
		}
		return
	}
	if once := f["once"]; d.Once != "" {
		u, err := url.Parse(d.Once)
		if rule := badURL(d.Once); rule != "" {
			p.add(once.line, once.path, "%s", rule)
		} else if err == nil && u.RawQuery != "" {
			p.add(once.line, once.path, "must not have a query: it is the beginning of the URLs of the other system's HTTP API")
		}
	}
	stream, ok := f["stream"]
	switch {
	case !ok:
		p.add(n.line, n.path, "needs stream: a stream of the other system")
	case d.Stream != "" && record.ValidStream(d.Stream) != nil:
		p.add(stream.line, stream.path, "is not a name of a stream")
	}
	if auth, ok := f["auth"]; ok && d.Auth != "" && d.Auth != AuthIAM {
		p.secretPlace(auth, d.Auth)
	}
	if header, ok := f["header"]; ok {
		if d.Auth == "" || d.Auth == AuthIAM {
			p.add(header.line, header.path, "is only for a key, with auth")
		}
		if d.Header != "" && !validHeader(d.Header) {
			p.add(header.line, header.path, "must be a name of a header that is not of this contract, such as X-Api-Key")
		}
	}
	if group := f["group"]; len(d.Group) > record.MaxName || strings.ContainsFunc(d.Group, unicode.IsControl) {
		p.add(group.line, group.path, "must be at most %d bytes, without control characters", record.MaxName)
	}
}

// validHeader reports whether a header may carry a key: it must not be one that describes the
// message or the connection.
func validHeader(name string) bool {
	for _, r := range name {
		if letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'; !letter && (r < '0' || r > '9') && r != '-' {
			return false
		}
	}
	lower := strings.ToLower(name)
	return !strings.HasPrefix(lower, "once-") && !slices.Contains([]string{"content-type", "content-length", "content-encoding", "host", "connection", "transfer-encoding"}, lower)
}

func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "must be an absolute http or https URL"
	case u.User != nil:
		return "must not carry a user name or password, which logs would show"
	case u.Fragment != "":
		return fmt.Sprintf("must not have a fragment: %q never reaches the receiver", "#"+u.Fragment)
	}
	return ""
}
