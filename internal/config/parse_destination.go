package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

func (p *reader) destination(n node) Destination {
	p.lines[n.path] = n.line
	kinds := []string{"file", "webhook", "sqs", "sns", "eventbridge", "stream"}
	f := p.only(n, append(kinds, "secret", "retry")...)
	p.note(f)
	text := func(key string) string {
		value, ok := f[key]
		return p.text(value, ok)
	}
	d := Destination{
		File: text("file"), Webhook: text("webhook"), Secret: Secret(text("secret")),
		SQS: text("sqs"), SNS: text("sns"), EventBridge: text("eventbridge"), Stream: text("stream"),
	}
	d.Retry = p.retry(f)
	given := slices.DeleteFunc(kinds, func(k string) bool { _, ok := f[k]; return !ok })
	if f != nil && len(given) != 1 {
		p.add(n.line, n.path, "must have exactly one of file, webhook, sqs, sns, eventbridge, stream; it has %s", orNone(given))
	}
	p.destinationRules(f, d)
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
		place, name, _ := strings.Cut(string(d.Secret), ":")
		if !slices.Contains(secretPlaces(), place) || name == "" {
			p.add(n.line, n.path, "must say where the secret is, as env:NAME, file:PATH, secretsmanager:NAME or ssm:NAME; a secret itself has no place in a configuration")
		}
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
