package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
)

// logging holds the arguments of logs.
type logging struct {
	stream, id, hash, since string
	limit                   int
	json                    bool
	stack                   *stackOptions
}

// logLine is the JSON output of logs: one line of a log.
type logLine struct {
	Time     time.Time `json:"time"`
	Function string    `json:"function"`
	LogGroup string    `json:"log_group"`
	// Line is the object that was logged, or a text if it is not JSON.
	Line json.RawMessage `json:"line"`
}

func (a *app) logs() *cobra.Command {
	var o logging
	cmd := &cobra.Command{
		Use:   "logs [STREAM] --stack NAME",
		Short: "Print the log of the functions of a deployed system",
		Long: `Logs prints the lines that the functions of a stack have logged, of all of them together in the order of their times. STREAM selects the lines about one
stream, --id those about one message, and --hash those with this hash. Metrics, and Lambda's own lines about invocations that succeeded, are
left out.

Log lines have a hash of stream, sender and id, not the id: --id computes it for the same senders as once show, which --principal changes. A
message that is done without a failed try has lines only if the function logs at the level DEBUG.

It prints the earliest lines from --since on, --limit at most. CloudWatch reads all that was logged since, so a short --since is faster. A line can be read a
few seconds after it was logged. It needs cloudformation:ListStackResources, lambda:GetFunctionConfiguration, and logs:FilterLogEvents on the log groups.`,
		Example: `  once logs --stack Once                               # the last hour
  once logs orders --stack Once --since 15m
  once logs orders --id o-1 --stack Once --since 1d    # what happened to one message
  once logs --hash 2f1a9c0b7d44 --stack Once
  once logs --stack Once --since 2026-01-02T15:04:05Z --json | jq 'select(.line.level == "ERROR")'`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "only lines about the message with this id; needs STREAM")
	f.StringVar(&o.hash, "hash", "", "only lines with this hash")
	f.StringVar(&o.since, "since", "1h", "how long ago the first line was logged, or its time, as 2026-01-02T15:04:05Z")
	f.IntVar(&o.limit, "limit", 1000, "print at most this many lines")
	f.BoolVar(&o.json, "json", false, "print JSON, one line a line")
	o.stack = stackFlags(cmd)
	principalFlag(cmd, o.stack)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.stream = args[0]
		}
		since, err := o.check(cmd, time.Now())
		if err != nil {
			return usageError(cmd, err)
		}
		return a.printLogs(cmd, o, since)
	}
	return cmd
}

// check returns the time of the first line.
func (o *logging) check(cmd *cobra.Command, now time.Time) (time.Time, error) {
	since, err := sinceTime(o.since, now)
	if err := errors.Join(err, o.stack.check(cmd)); err != nil {
		return since, err
	}
	switch {
	case o.stack.Name == "":
		return since, errors.New("name the stack with --stack: only a deployed system has logs that are kept; once dev writes its log to standard error")
	case o.limit < 1:
		return since, errors.New("--limit must be at least 1")
	case o.id != "" && o.stream == "":
		return since, errors.New("--id needs the message's stream: once logs STREAM --id ID")
	case o.id != "" && o.hash != "":
		return since, errors.New("--id and --hash exclude each other")
	case cmd.Flags().Changed("principal") && o.id == "":
		return since, errors.New("--principal needs --id")
	}
	if o.stream != "" {
		if err := record.ValidStream(o.stream); err != nil {
			return since, err
		}
	}
	if o.hash != "" {
		if err := (admin.HashOptions{Hash: o.hash}).Validate(); err != nil {
			return since, fmt.Errorf("--hash %w", err)
		}
	}
	return since, nil
}

// sinceTime reads a time, or a duration before now.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := config.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("--since %q must be a duration, as 15m or 2d, or a time, as 2026-01-02T15:04:05Z", text)
	}
	return now.Add(-d.Std()), nil
}

func (a *app) printLogs(cmd *cobra.Command, o logging, since time.Time) error {
	ctx := cmd.Context()
	found, err := deployed.Open(ctx, o.stack.Options)
	if err != nil {
		return err
	}
	options := deployed.LogOptions{Stream: o.stream, Since: since, Limit: o.limit}
	if options.Hashes, err = a.hashes(ctx, cmd, found, o); err != nil {
		return err
	}
	lines, more, err := found.Logs(ctx, options)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if err := a.printLogLine(l, o.json); err != nil {
			return err
		}
	}
	switch {
	case more:
		return a.note(fmt.Sprintf("there are more lines: continue with --since %s (lines of that millisecond are printed again), or raise --limit\n", lines[len(lines)-1].Time.Format(time.RFC3339Nano)))
	case len(lines) == 0:
		return a.note(fmt.Sprintf("no lines since %s; a message that is done without a failed try logs only at the level DEBUG\n", since.UTC().Format(time.RFC3339)))
	}
	return nil
}

// hashes returns the hashes of the lines that are asked for, or none for all lines.
func (a *app) hashes(ctx context.Context, cmd *cobra.Command, found *deployed.Stack, o logging) ([]string, error) {
	switch {
	case o.hash != "":
		return []string{o.hash}, nil
	case o.id == "":
		return nil, nil
	}
	options := deployed.SystemOptions{Log: a.stackLog()}
	if cmd.Flags().Changed("principal") {
		options.Principal = &o.stack.principal
	}
	system, err := found.System(options)
	if err != nil {
		return nil, err
	}
	return system.Hashes(ctx, o.stream, o.id)
}

func (a *app) printLogLine(l deployed.LogLine, asJSON bool) error {
	if asJSON {
		out := logLine{l.Time, l.Function, l.Group, json.RawMessage(l.Text)}
		if !json.Valid(out.Line) {
			out.Line, _ = json.Marshal(l.Text) // a string can always be encoded
		}
		e := json.NewEncoder(a.out)
		e.SetEscapeHTML(false)
		return e.Encode(out)
	}
	_, err := fmt.Fprintln(a.out, l.Time.Format("2006-01-02T15:04:05.000Z"), l.Function, safe(readable(l.Text)))
	return err
}

// readable returns a line of JSON as level, message and attributes, and any other text unchanged.
func readable(text string) string {
	names, values, ok := members(text)
	if !ok {
		return text
	}
	level, message, rest := "-", "", ""
	for i, name := range names {
		value := strings.Trim(values[i], `"`)
		switch name {
		case "level":
			level = value
		case "message":
			_ = json.Unmarshal([]byte(values[i]), &message) // if it is not a string, there is none
		case "timestamp", "time", "function", "requestId":
		default:
			rest += " " + name + "=" + values[i]
		}
	}
	return fmt.Sprintf("%-5s %s", level, strings.TrimSpace(message+rest))
}

// members returns the members of a JSON object in their order; values are compact JSON.
func members(text string) (names, values []string, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, false
		}
		var value json.RawMessage
		var compact bytes.Buffer
		if d.Decode(&value) != nil || json.Compact(&compact, value) != nil {
			return nil, nil, false
		}
		names, values = append(names, fmt.Sprint(name)), append(values, compact.String())
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, false
	}
	_, err := d.Token()
	return names, values, errors.Is(err, io.EOF)
}
