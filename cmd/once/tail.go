package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
)

// tailing holds the arguments of tail.
type tailing struct {
	stream, group string // all groups if group is empty
	after         string
	state         string // file with the offsets of all groups
	noFollow      bool
	json          bool
	sending       // the server

	given string // the flags of the command line as text, without --after
}

const tailLong = `Tail prints the log of a group, one entry a line, and then follows it: it prints what the group commits from then on. Without a group, it does
so with all groups of the stream, also with those that are new.

The stream must keep a log: log: {retain: 7d} in its configuration. Numbers are 1, 2, 3 ... without holes. A lost connection or a restart of the server
is survived: tail continues after the last entry that it printed. It ends with exit code 0 after the last entry of a log that has ended.

--after OFFSET begins after an entry, and --after now at the end of the log; default is the first entry that is kept. If tail is interrupted, it
prints the command that continues on standard error, and exits with 5. If entries after the offset have expired, it exits with 3 and says where
the log continues; it never skips entries silently. If there is no log of the group yet, tail says so and waits for it; with --no-follow it exits with 6.

The entries of a group are in the order of their numbers. Between the groups of a stream there is no order. To continue where an earlier tail of a
stream stopped, give both the same --state FILE: tail keeps the offset of each group in it, at least once a second, after it has printed the entries.
After a kill, it prints again what it had printed since. If entries after an offset in the file have expired, tail says so on standard error and goes
on with what is kept. A tail of a stream needs a server that lists groups: once dev or a Go program, not a stack.

The server is --url, else $ONCE_URL, else ` + defaultURL + `. $ONCE_API_KEY is the key for it.`

func (a *app) tail() *cobra.Command {
	var o tailing
	cmd := &cobra.Command{
		Use:   "tail STREAM[/GROUP]",
		Short: "Print the log of a group or of all groups, and follow it",
		Long:  tailLong,
		Example: `  once tail chat/lobby                                       # from the first entry that is kept, and on
  once tail chat/lobby --after now --json                    # only what comes from now on, as JSON lines
  once tail chat/lobby --no-follow > lobby.txt               # what there is
  once tail chat/lobby --after 1767323045000_0000000000000017
  once tail chat/lobby --stack Once --region eu-west-1
  once tail chat --after now                                 # all groups of the stream, each line begins with the group
  once tail chat --json --state chat.json >> chat.jsonl      # again and again: each time what is new`,
		Args:              arguments(streamAndGroup),
		ValidArgsFunction: completeStreams,
	}
	f := cmd.Flags()
	f.StringVar(&o.after, "after", "", "offset of the entry to begin after, or now; default the first entry that is kept")
	f.BoolVar(&o.noFollow, "no-follow", false, "end at the present end of the log")
	f.StringVar(&o.state, "state", "", "file that keeps where to continue, for a stream without a group")
	f.StringVar(&o.url, "url", "", "server; default $"+adminURLVariable+" if there is a key of operators, else $ONCE_URL or "+defaultURL)
	o.operator = &remoteOptions{}
	keyFlags(cmd, o.operator)
	o.stack = stackFlags(cmd)
	f.BoolVar(&o.json, "json", false, "print JSON, one entry a line, as the HTTP API has it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.stream, o.group, _ = strings.Cut(args[0], "/")
		if err := errors.Join(record.ValidStream(o.stream), o.check(), o.stack.check(cmd)); err != nil {
			return usageError(cmd, err)
		}
		o.given = givenFlags(cmd.Flags())
		notice := &notice{app: a, text: "trying again in", lost: "the server is not reachable, trying again in"}
		s, err := a.sender(cmd, &o.sending, client.Options{OnRetry: notice.retry})
		if err != nil {
			return err
		}
		if x, ok := s.(signed); ok {
			s = x.sender
		}
		return a.follow(cmd.Context(), s.(*client.Client), &o)
	}
	return cmd
}

// check returns an error if arguments are not for what is followed.
func (o *tailing) check() error {
	switch {
	case o.group != "" && o.state != "":
		return errors.New("--state is for a stream without a group; a group has --after")
	case o.group == "" && o.after != "" && o.after != client.FromNow:
		return errors.New("an offset belongs to a group: name it, or give --state FILE for all groups")
	case o.group == "" && o.stack.Name != "":
		return errors.New("a stack has no list of its groups: name a group")
	}
	return nil
}

func streamAndGroup(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name a stream or a group: once tail STREAM[/GROUP]")
	}
	if stream, group, ok := strings.Cut(args[0], "/"); ok && group == "" {
		return fmt.Errorf("name a group, once tail %s/GROUP, or follow all of them: once tail %s", stream, stream)
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

// follow prints entries until the log or the context ends.
func (a *app) follow(ctx context.Context, c *client.Client, o *tailing) error {
	// A tail waits until a server is there. At the beginning its address is more likely wrong.
	if err := o.reachable(ctx, c); err != nil {
		return err
	}
	if o.group == "" {
		return a.followStream(ctx, c, o)
	}
	if !o.noFollow && noLog(ctx, c, o) {
		_, _ = fmt.Fprintf(a.err, "%v; waiting for its first entry\n", o.unknownGroup())
	}
	tail := c.Tail(o.stream, o.group, client.TailOptions{After: o.after, NoFollow: o.noFollow})
	for {
		e, err := tail.Next(ctx)
		switch {
		case errors.Is(err, client.ErrEnd) && isNone(tail.Offset()):
			return &exitError{exitUnknown, o.unknownGroup()}
		case errors.Is(err, client.ErrEnd):
			return nil
		case err != nil && ctx.Err() != nil:
			return &exitError{exitIncomplete, fmt.Errorf("interrupted; to continue: %s", o.command(tail.Offset()))}
		case err != nil:
			return continued(err, o)
		}
		if _, err := io.WriteString(a.out, o.line(&e)); err != nil {
			return fmt.Errorf("print entry: %w", err)
		}
	}
}

// noLog reports whether the server has no log of the group. It returns false after an error, which
// the tail has too.
func noLog(ctx context.Context, c *client.Client, o *tailing) bool {
	end := c.Tail(o.stream, o.group, client.TailOptions{After: client.FromNow, NoFollow: true})
	_, err := end.Next(ctx)
	return errors.Is(err, client.ErrEnd) && isNone(end.Offset())
}

// isNone reports whether an offset is that of a group without a log.
func isNone(offset string) bool { return offset != "" && strings.Trim(offset, "0_") == "" }

func (o *tailing) unknownGroup() error {
	return fmt.Errorf("stream %s has no log of group %s yet", o.stream, quoted(safe(o.group)))
}

// command returns the command that does the same after an offset.
func (o *tailing) command(after string) string {
	text := "once tail " + o.stream
	if o.group != "" {
		text += "/" + quoted(safe(o.group))
	}
	if after != "" {
		text += " --after " + after
	}
	return text + o.given
}

// givenFlags returns the flags of a command line as text, without --after. The password of an
// address is hidden.
func givenFlags(flags *pflag.FlagSet) string {
	var text strings.Builder
	flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if u, err := url.Parse(value); f.Name == "url" && err == nil {
			value = u.Redacted()
		}
		switch {
		case f.Name == "after":
		case f.Value.Type() == "bool" && value == "true":
			text.WriteString(" --" + f.Name)
		case f.Value.Type() == "bool": // without "=" the value would be an argument
			text.WriteString(" --" + f.Name + "=" + value)
		default:
			text.WriteString(" --" + f.Name + " " + quoted(safe(value)))
		}
	})
	return text.String()
}

// continued adds the command that continues to the error of an offset that can't be read any more.
func continued(err error, o *tailing) error {
	if expired, ok := errors.AsType[*client.ExpiredError](err); ok {
		return fmt.Errorf("%w\nto read what is kept: %s", err, o.command(expired.Next))
	}
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Type == client.Ahead && p.Next != "" {
		return fmt.Errorf("%w\nnumbers are used again for other entries: compare what you did with the log, and then continue: %s", err, o.command(p.Next))
	}
	return err
}

// A tailLine is an entry as the HTTP API has it in JSON.
type tailLine struct {
	Group          string            `json:"group,omitempty"` // if the reader has several
	Number         uint64            `json:"number"`
	Offset         string            `json:"offset"`
	Kind           string            `json:"kind"`
	ID             string            `json:"id,omitempty"`
	RedeliveryOf   string            `json:"redelivery_of,omitempty"`
	Source         string            `json:"source,omitempty"`
	Epoch          uint64            `json:"epoch,omitempty"`
	Sequence       uint64            `json:"sequence,omitempty"`
	From           uint64            `json:"from,omitempty"`
	To             uint64            `json:"to,omitempty"`
	Parents        []uint64          `json:"parents,omitempty"`
	ParentsMissing bool              `json:"parents_missing,omitempty"`
	Via            []string          `json:"via,omitempty"`
	Late           bool              `json:"late,omitempty"`
	Time           string            `json:"time"`
	ContentType    string            `json:"content_type,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Body           any               `json:"body,omitempty"`
	BodyBase64     []byte            `json:"body_base64,omitempty"`
	Principal      string            `json:"principal,omitempty"`
}

// line returns an entry as a line: JSON, or number, time, identity and body for people.
func (o *tailing) line(e *client.Entry) string {
	if !o.json {
		return o.prefix(e) + text(e)
	}
	l := newTailLine(e)
	if o.group == "" {
		l.Group = e.Group
	}
	return oneLine(l)
}

func newTailLine(e *client.Entry) tailLine {
	l := tailLine{
		Number: e.Number, Offset: e.Offset, Kind: e.Kind, ID: e.ID, RedeliveryOf: e.RedeliveryOf, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence, From: e.From, To: e.To,
		Parents: e.Parents, ParentsMissing: e.ParentsMissing, Via: e.Via, Late: e.Late, Time: e.Time.String(), ContentType: e.ContentType, Headers: e.Headers, Principal: e.Principal,
	}
	switch {
	case len(e.Body) == 0:
	case !utf8.Valid(e.Body):
		l.BodyBase64 = e.Body
	case record.IsJSON(e.ContentType) && json.Valid(e.Body):
		l.Body = json.RawMessage(e.Body)
	default:
		l.Body = string(e.Body)
	}
	return l
}

// oneLine returns a line of JSON.
func oneLine(l any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(l) // strings, numbers and valid JSON always encode
	return b.String()
}

// prefix names the group of an entry, if there are several.
func (o *tailing) prefix(e *client.Entry) string {
	if o.group != "" {
		return ""
	}
	return safe(e.Group) + "  "
}

func text(e *client.Entry) string {
	what := safe(e.ID)
	switch e.Kind {
	case "gap":
		what = fmt.Sprintf("gap: numbers %d to %d of source %s were skipped", e.From, e.To, safe(e.Source))
	case "end":
		what = "end of the log"
	}
	line := fmt.Sprintf("%d  %s  %s", e.Number, e.Time.Time().Format("2006-01-02T15:04:05.000Z"), what)
	if len(e.Body) > 0 {
		line += "  " + safe(string(e.Body))
	}
	return line + "\n"
}
