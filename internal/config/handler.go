package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/effectively-once/once/internal/record"
)

// Handler is a program that handles the messages of a stream, in any language: one of the fields for
// its kind is set. Without one it has the settings of a handler in Go.
type Handler struct {
	// URL is an absolute http or https URL.
	URL string `json:"url,omitempty" jsonschema:"pattern=^https?://,description=URL that gets one POST for each group's messages; it answers with the new state and what is to be sent."`
	// Secret signs the requests to the URL.
	Secret Secret `json:"secret,omitempty" jsonschema:"description=Where the secret that signs the requests to the URL is: env:NAME or file:PATH or secretsmanager:NAME or ssm:NAME. Never the secret itself."`
	// Lambda is a function's name or ARN. Only on AWS.
	Lambda string `json:"lambda,omitempty" jsonschema:"minLength=1,description=Name or ARN of a Lambda function. Only on AWS."`
	// Exec is a command with its arguments. Only in "once dev".
	Exec string `json:"exec,omitempty" jsonschema:"minLength=1,description=Command that once dev starts: it reads a request a line and writes an answer a line. Only in once dev."`
	// Timeout of one attempt. 0 means [record.DefaultTimeout].
	Timeout Duration `json:"timeout,omitempty" jsonschema:"description=How long one attempt may take; from 100ms to 15m. Default: 10s."`
	// Batch is how many messages of a group one call has at most. 0 means [DefaultHandlerBatch]. A
	// handler in Go gets one message.
	Batch int `json:"batch,omitempty" jsonschema:"minimum=1,maximum=1000,default=100,description=How many messages of one group a call has at most."`
	// Concurrency is how many attempts run in one process at a time. 0 means
	// [record.DefaultConcurrency]. A program of Exec is called once at a time.
	Concurrency int `json:"concurrency,omitempty" jsonschema:"minimum=1,maximum=10000,default=64,description=How many attempts run in one process at a time. exec is called once at a time."`
}

// DefaultHandlerBatch is how many messages one call has at most if the configuration does not say it.
const (
	DefaultHandlerBatch = 100
	maxHandlerBatch     = 1000
)

// HandlerKind is the kind of a handler.
type HandlerKind string

// The kinds of handler.
const (
	HandlerURL    HandlerKind = "url"
	HandlerLambda HandlerKind = "lambda"
	HandlerExec   HandlerKind = "exec"
	HandlerCode   HandlerKind = "code" // in Go, registered by the program
)

// Kind returns the kind of the handler.
func (h Handler) Kind() HandlerKind {
	switch {
	case h.Lambda != "":
		return HandlerLambda
	case h.Exec != "":
		return HandlerExec
	case h.URL != "":
		return HandlerURL
	default:
		return HandlerCode
	}
}

// Target returns the URL, the function or the command, for people.
func (h Handler) Target() string { return cmp.Or(h.Lambda, h.Exec, h.URL) }

// WithDefaults returns the handler with its timeout, batch and concurrency.
func (h Handler) WithDefaults() Handler {
	h.Timeout = cmp.Or(h.Timeout, Duration(record.DefaultTimeout))
	h.Batch = cmp.Or(h.Batch, DefaultHandlerBatch)
	h.Concurrency = cmp.Or(h.Concurrency, record.DefaultConcurrency)
	return h
}

// HandlerNames returns the names of the streams with a configured handler, sorted.
func (c *Config) HandlerNames() []string { return slices.Sorted(maps.Keys(c.Handlers)) }

// CheckHandlerKinds returns an error for each handler that is of none of the kinds that a system
// can call.
func (c *Config) CheckHandlerKinds(system string, kinds ...HandlerKind) error {
	var errs []error
	for _, name := range c.HandlerNames() {
		h := c.Handlers[name]
		if !slices.Contains(kinds, h.Kind()) {
			errs = append(errs, fmt.Errorf("%s.%s: %s: %s has no such handlers", join("handlers", name), h.Kind(), h.Where(), system))
		}
	}
	return errors.Join(errs...)
}

// Where says in which systems the kind of the handler works.
func (h Handler) Where() string {
	switch h.Kind() {
	case HandlerLambda:
		return "works on AWS only; url works everywhere"
	case HandlerExec:
		return "works in once dev only; url works everywhere"
	case HandlerCode:
		return "is for a program that registers the handler in Go; set url, lambda or exec for one in another language"
	default:
		return "works everywhere"
	}
}

func (p *reader) handler(n node) Handler {
	p.lines[n.path] = n.line
	kinds := []string{"url", "lambda", "exec"}
	f := p.only(n, append(kinds, "secret", "timeout", "batch", "concurrency")...)
	p.note(f)
	text := func(key string) string {
		value, ok := f[key]
		return p.text(value, ok)
	}
	h := Handler{
		URL: text("url"), Lambda: text("lambda"), Exec: text("exec"), Secret: Secret(text("secret")),
		Timeout: p.duration(f, "timeout"),
		Batch:   p.numberTo(f, "batch", maxHandlerBatch), Concurrency: p.numberTo(f, "concurrency", record.MaxConcurrency),
	}
	given := slices.DeleteFunc(kinds, func(k string) bool { _, ok := f[k]; return !ok })
	if f != nil && (len(given) > 1 || len(f) == 0) {
		p.add(n.line, n.path, "must have one of url, lambda, exec, or the timeout or concurrency of a handler in Go; it has %s", orNone(given))
	}
	if _, batched := f["batch"]; batched && len(given) == 0 {
		p.add(n.line, n.path, "has a batch, and none of url, lambda, exec: a handler in Go gets one message at a time")
	}
	p.handlerRules(f, h)
	return h
}

// numberTo returns a whole number of at most so much.
func (p *reader) numberTo(f map[string]node, key string, most int) int {
	n, ok := f[key]
	if !ok {
		return 0
	}
	before := len(p.list)
	value := int(p.number(f, key)) //nolint:gosec // at most maxBound
	if len(p.list) > before || value > most {
		p.list = p.list[:before]
		p.add(n.line, n.path, "must be a whole number between 1 and %d", most)
		return 0
	}
	return value
}

func (p *reader) handlerRules(f map[string]node, h Handler) {
	if n, ok := f["url"]; ok && h.URL != "" {
		if rule := badURL(h.URL); rule != "" {
			p.add(n.line, n.path, "%s", rule)
		}
	}
	if n, ok := f["secret"]; ok && h.Secret != "" {
		p.secretPlace(n, h.Secret)
		if _, called := f["url"]; !called {
			p.add(n.line, n.path, "is only for a url")
		}
	}
	if n, ok := f["lambda"]; ok && h.Lambda != "" {
		if _, err := ParseFunction(h.Lambda); err != nil {
			p.add(n.line, n.path, functionRule)
		}
	}
	if n, ok := f["exec"]; ok && h.Exec != "" {
		if strings.TrimSpace(h.Exec) == "" || strings.ContainsFunc(h.Exec, unicode.IsControl) {
			p.add(n.line, n.path, "must be a command with its arguments, on one line")
		}
	}
	if n, ok := f["timeout"]; ok && h.Timeout.Std() >= minDuration && (h.Timeout.Std() < record.MinTimeout || h.Timeout.Std() > record.MaxTimeout) {
		p.add(n.line, n.path, "must be between %v and %v", Duration(record.MinTimeout), Duration(record.MaxTimeout))
	}
}

// handlersTogether checks the handlers against the streams.
func (p *reader) handlersTogether(c *Config) {
	for _, name := range c.HandlerNames() {
		path := join("handlers", name)
		s, ok := c.Streams[name]
		switch {
		case !ok:
			p.add(p.lines[path], path, "there is no stream %q%s", name, known(c.StreamNames()))
		case s.Pool != nil:
			p.add(p.lines[path], path, "is for a stream with a pool, whose entries are for sessions: a stream has a handler or a pool")
		}
	}
}

// handlerWarnings returns the warnings about handlers.
func (c *Config) handlerWarnings() []string {
	var out []string
	for _, name := range c.HandlerNames() {
		h, path := c.Handlers[name], join("handlers", name)
		u, err := url.Parse(h.URL)
		here := err == nil && Loopback(u.Host)
		if h.URL != "" && h.Secret == "" && !here {
			out = append(out, path+": has no secret: its requests are not signed, so the handler can't know who sends them")
		}
		if strings.HasPrefix(h.URL, "http://") && !here {
			out = append(out, path+": sends messages and states without encryption: use https")
		}
		if h.Lambda != "" && h.Timeout.Std() > functionTimeout-handlerMargin {
			out = append(out, fmt.Sprintf("%s.timeout: on AWS the timeout of the functions, which is %v by default, must be at least %v", path, Duration(functionTimeout), h.Timeout+Duration(handlerMargin)))
		}
		if h.Exec != "" && h.Concurrency > 1 {
			out = append(out, path+".concurrency: exec is called once at a time")
		}
	}
	return out
}

// ExecWarnings returns the warnings about handlers that are programs. They are not among the
// [Config.Warnings], because the programs work in once dev, and every other system refuses them.
func (c *Config) ExecWarnings() []string {
	var out []string
	for _, name := range c.HandlerNames() {
		if h := c.Handlers[name]; h.Exec != "" {
			out = append(out, join("handlers", name)+".exec: "+h.Where())
		}
	}
	return out
}
