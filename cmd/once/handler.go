package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/handler/program"
	"github.com/effectively-once/once/internal/handler/remote"
	"github.com/effectively-once/once/internal/record"
)

func (a *app) handler() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "handler",
		Short:   "Try handlers in other languages",
		Example: `  once handler try orders --url http://127.0.0.1:9000/ --message '{"item":7}'`,
		Args:    unknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.handlerTry())
	return cmd
}

// trying are the flags of handler try.
type trying struct {
	url, exec, secret, state, group, timeout string
	messages, headers                        []string
	id, timer, contentType                   string
	number                                   int
	asJSON                                   bool
}

// A tryResult is a call to a handler, as JSON.
type tryResult struct {
	Stream string          `json:"stream"`
	Group  string          `json:"group"`
	Before json.RawMessage `json:"state_before"`
	After  json.RawMessage `json:"state_after"`
	Took   string          `json:"took"`
	Answer json.RawMessage `json:"answer"`
	parsed *handler.Answer
	left   int // messages that were not answered
}

func (a *app) handlerTry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "try STREAM",
		Short: "Call a handler once, and show what would be committed",
		Long: `Try sends one request to a handler and shows what would be committed: the state before and after, and for each message the reply, the effects, the
timers, the entries of the log, or the refusal. Nothing is committed, and no server is needed.

The handler is that of the stream in the configuration, unless --url or --exec names another one. The reply and the timers are checked as a commit checks them,
for a group that has no other timers. If the stream is in the configuration, so are the destinations of effects, whether each takes delayed ones, and that the
stream has a log if entries are appended.

A message is JSON, or text with a --content-type that is not JSON; @FILE reads it from a file, and @- from standard input. Each further --message is another
message of the same group. With --timer the message is that of a timer, which needs no body.

It exits with 1 if the handler failed or its answer breaks a rule; the text says which one.`,
		Example: `  once handler try orders --message '{"item":7}'
  once handler try orders --url http://localhost:9000/once --message @order.json --state '{"cents":100}'
  once handler try orders --exec 'python3 handler.py' --message '{"item":7}' --message '{"item":8}' --json
  once handler try orders --timer unpaid --state '{"cents":100}'`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: completeStreams,
	}
	o := &trying{}
	path := configFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "URL of the handler; default that of the configuration")
	f.StringVar(&o.exec, "exec", "", "command that is the handler; default that of the configuration")
	f.StringVar(&o.secret, "secret", "", "where the secret is that signs the request: env:NAME or file:PATH")
	o.messageFlags(f)
	f.StringVar(&o.state, "state", "", "state of the group before: JSON, @FILE or @-; default none")
	f.StringVar(&o.group, "group", "try", "group of the messages")
	f.StringVar(&o.timeout, "timeout", "", "how long the handler may take; default that of the configuration, else 10s")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.asJSON = *asJSON
		if err := record.ValidStream(args[0]); err != nil {
			return usageError(cmd, err)
		}
		c, err := load(cmd, *path)
		if err != nil {
			return err
		}
		return a.tryHandler(cmd, c.Config, args[0], o)
	}
	return cmd
}

// tryAttempt is the attempt of the one request of a command.
const tryAttempt = "try"

func (a *app) tryHandler(cmd *cobra.Command, c *config.Config, stream string, o *trying) error {
	h, err := o.handler(c, stream)
	if err != nil {
		return usageError(cmd, err)
	}
	request, ids, state, err := a.tryRequest(stream, o)
	if err != nil {
		return usageError(cmd, err)
	}
	caller, err := a.openTried(stream, h)
	if err != nil {
		return usageError(cmd, err)
	}
	defer closeTried(cmd.Context(), caller)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), h.Timeout.Std(), fmt.Errorf("no answer within %s: raise it with --timeout, or make the handler faster", h.Timeout))
	defer cancel()
	began := time.Now()
	text, err := caller.Call(ctx, tryAttempt, request)
	if err != nil {
		return err
	}
	r := &tryResult{Stream: stream, Group: o.group, Before: state, After: state, Took: time.Since(began).Round(time.Millisecond).String()}
	if r.parsed, err = handler.DecodeAnswer(text, tryAttempt, ids); err != nil {
		return fmt.Errorf("answer of the handler: %w", err)
	}
	if err := checkTried(c, stream, o, r.parsed); err != nil {
		return fmt.Errorf("answer of the handler: %w", err)
	}
	r.Answer, r.left = text, len(ids)-len(r.parsed.Results)
	if r.parsed.SetState {
		r.After = r.parsed.State
	}
	for _, s := range []*json.RawMessage{&r.Before, &r.After} {
		if len(*s) == 0 {
			*s = json.RawMessage("null")
		}
	}
	if o.asJSON {
		return printJSON(a.out, r)
	}
	return a.showTried(r)
}

// handler returns the handler to try.
func (o *trying) handler(c *config.Config, stream string) (config.Handler, error) {
	h := c.Handlers[stream]
	if err := o.validMessages(); err != nil {
		return h, err
	}
	switch {
	case c.Streams[stream].Pool != nil:
		return h, fmt.Errorf("stream %s has a pool, and its entries are for sessions: it has no handler", stream)
	case o.url != "" && o.exec != "":
		return h, errors.New("--url and --exec exclude each other")
	case o.secret != "" && !config.Secret(o.secret).Local():
		return h, errors.New("--secret must say where the secret is, as env:NAME or file:PATH")
	case o.secret != "" && (o.exec != "" || o.url == "" && h.Kind() == config.HandlerExec):
		return h, errors.New("--secret signs requests to a URL, and the handler is a program")
	case o.url != "" || o.exec != "":
		h = config.Handler{URL: o.url, Exec: o.exec, Timeout: h.Timeout, Secret: config.Secret(o.secret)}
	case h.Kind() == config.HandlerCode:
		return h, fmt.Errorf("stream %s has no handler in the configuration: name one with --url or --exec", stream)
	case h.Kind() == config.HandlerLambda:
		return h, errors.New("the handler is a function of Lambda, which this command does not call: serve it on this machine, and name it with --url or --exec")
	case o.secret != "":
		h.Secret = config.Secret(o.secret)
	}
	if o.timeout != "" {
		d, err := config.ParseDuration(o.timeout)
		if err != nil || d == 0 {
			return h, fmt.Errorf("--timeout %q must be a duration such as 30s", o.timeout)
		}
		h.Timeout = d
	}
	return h.WithDefaults(), nil
}

// tryRequest returns the request, the ids of its messages, and the state in it.
func (a *app) tryRequest(stream string, o *trying) (text []byte, ids []string, state json.RawMessage, err error) {
	if state, err = a.argument("--state", o.state); err != nil {
		return nil, nil, nil, err
	}
	if string(state) == "null" {
		state = nil
	}
	r := handler.Request{Stream: stream, Group: o.group, Version: 0, Attempt: tryAttempt, State: state}
	messages, err := a.tried(stream, o)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range messages {
		if err := messages[i].Validate(); err != nil {
			return nil, nil, nil, err
		}
		message, err := handler.NewMessage(&messages[i])
		if err != nil {
			return nil, nil, nil, err
		}
		r.Messages = append(r.Messages, message)
	}
	text, ids, err = r.Encode()
	return text, ids, state, err
}

// argument returns the JSON of a flag: itself, or that of a file.
func (a *app) argument(flag, text string) (json.RawMessage, error) {
	data, err := a.read(flag, text)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 && (!json.Valid(data) || !utf8.Valid(data)) {
		return nil, fmt.Errorf("%s must be JSON, such as '{\"item\":7}'; a text needs quotes: '\"text\"'", flag)
	}
	return data, nil
}

// A closer is a caller that can be closed.
type closer interface {
	handler.Caller
	io.Closer
}

func (a *app) openTried(stream string, h config.Handler) (closer, error) {
	if h.Kind() == config.HandlerExec {
		return program.New(program.Options{Command: h.Exec, Timeout: h.Timeout.Std(), Env: []string{"ONCE_STREAM=" + stream}, Stderr: a.err})
	}
	options := remote.Options{Concurrency: 1}
	if h.Secret != "" {
		if _, err := h.Secret.Resolve(); err != nil {
			return nil, err
		}
		options.Secret = h.Secret.Resolve
	}
	return remote.New(h.URL, options)
}

// closeTried closes a caller. If the command was interrupted, it does not wait for the program.
func closeTried(ctx context.Context, c closer) {
	if p, ok := c.(*program.Program); ok && ctx.Err() != nil {
		p.Kill()
	}
	_ = c.Close() // nothing is left to report: the answer was read, or the call has failed
}

// showTried prints the results that would be committed.
func (a *app) showTried(r *tryResult) error {
	pairs := []string{"took", r.Took, "state before", string(r.Before), "state after", string(r.After)}
	for _, result := range r.parsed.Results {
		pairs = append(pairs, "message", result.ID)
		if result.Rejected {
			pairs = append(pairs, "  reject", result.Reject)
		}
		if reply := result.Reply; reply != nil {
			pairs = append(pairs, "  reply", strconv.Itoa(reply.Status)+" "+contentText(reply.Body))
		}
		for _, e := range result.Effects {
			pairs = append(pairs, effectPair(&e)...)
		}
		for _, e := range result.Append {
			pairs = append(pairs, "  append", contentText(e.Body))
		}
	}
	if r.left > 0 {
		pairs = append(pairs, "not answered", plural(r.left, "message")+": asked again after the commit")
	}
	return lines(a.out, pairs...)
}

func effectPair(e *handler.Effect) []string {
	after := ""
	if e.After > 0 {
		after = " after " + config.Duration(e.After).String()
	}
	switch {
	case e.Cancel != "":
		return []string{"  cancel", e.Cancel}
	case e.Timer != "":
		return []string{"  timer", strings.TrimSpace(e.Timer + after + " " + contentText(e.Body))}
	}
	if e.Group != "" {
		after = " group " + e.Group + after
	}
	return []string{"  effect", strings.TrimSpace("to " + e.To + after + " " + contentText(e.Body))}
}

// contentText returns a body for people.
func contentText(body []byte) string {
	if !utf8.Valid(body) {
		return fmt.Sprintf("(%d bytes)", len(body))
	}
	return string(body)
}
