package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
)

// showing holds the arguments of show.
type showing struct {
	id          string
	hash        string
	deadLetters admin.DeadLettersOptions
	dead, full  bool
	after       string
	limit       int
	json        bool
	repeat      string // the flags that name the same system again
}

func (a *app) show() *cobra.Command {
	var o showing
	cmd := &cobra.Command{
		Use:   "show [STREAM | STREAM/GROUP | STREAM --id ID | --hash HASH]",
		Short: "Show what a system knows: totals, groups, one group, one message, dead letters",
		Long: `Show reads the data folder, or asks the server that runs on it. Without arguments it prints how much work is in flight; in JSON the field idle is
true if nothing is pending, held, leased, queued or delayed (delayed triggers, and messages that are not due, do not count).

A group and a message are shown with what they wait for: a try that failed, with its error and the time of the next one; a destination that has not
taken an effect; the number that is missing, and since when. Errors and times of tries are known to the server that makes them: of a folder without a
server, and of a stack, it shows what the records say.

--hash finds the message of a line of the log. It searches failing messages, the beginnings of the queues and the dead letters, and then the whole store;
with --stack only the tables. A message that is done is shown without its id, because only a hash of the id is kept. A numbered message without a reply
leaves no record when it is done.

With --stack it asks DynamoDB and SQS. A group or a message costs one or two reads; totals and lists read the whole tables, a read unit for every 4 KB.
Counts of queues are SQS's estimates, up to a minute old. --dead-letters receives the messages and releases them: for up to two minutes other receivers
do not get them, and of a first-in-first-out queue it shows up to ten of a group. Ids are scoped by their sender: --principal names another sender.
Streams are known from the configuration that was deployed. It is read from the process function, which needs lambda:GetFunction and downloads the
function; --config names a file in its place. A group that exists and --dead-letters need no configuration.`,
		Example: `  once show                         # totals
  once show --json | jq .idle       # is everything done?
  once show orders                  # groups of a stream
  once show orders/customer-7       # one group: its state, what is pending and held
  once show orders --id o-1         # one message: its status and its reply
  once show --hash 2f1a9c0b7d44     # the message of a line of the log
  once show --dead-letters          # what was refused, and why
  once show --dead-letters --id o-1 # one of them, with its headers and its body
  once show orders --id o-1 --stack Once --profile prod`,
		Args:              arguments(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeStreams,
	}
	on := targetFlags(cmd)
	principalFlag(cmd, on.stack)
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.id, "id", "", "show the message, or with --dead-letters the dead letter, with this id")
	f.StringVar(&o.hash, "hash", "", "show the message with this hash, as a line of the log has it")
	f.BoolVar(&o.dead, "dead-letters", false, "show dead letters")
	f.BoolVar(&o.full, "full", false, "show the headers and the whole body of every dead letter")
	queueFlags(cmd, &o.deadLetters.Queue, &o.deadLetters.Stream, &o.deadLetters.Reason, nil)
	f.StringVar(&o.after, "after", "", "show groups after this one")
	f.IntVar(&o.limit, "limit", admin.DefaultLimit, "show at most this many")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.repeat = repeated(cmd)
		ask, err := a.question(args, o)
		if err != nil {
			return usageError(cmd, err)
		}
		return a.look(cmd, on, a.inspectFolder, ask)
	}
	return cmd
}

// repeated returns the flags that were given, for a command that asks the same system again.
func repeated(cmd *cobra.Command) string {
	var text strings.Builder
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "after" {
			fmt.Fprintf(&text, " --%s=%s", f.Name, quoted(f.Value.String()))
		}
	})
	return text.String()
}

// quoted is [plain.Quote].
func quoted(value string) string { return plain.Quote(value) }

// question returns the function that answers the arguments.
func (a *app) question(args []string, o showing) (func(context.Context, admin.Admin) error, error) {
	if o.limit < 1 {
		return nil, errors.New("--limit must be at least 1")
	}
	if err := checkReason(o.deadLetters.Reason); err != nil {
		return nil, err
	}
	if o.full && !o.dead {
		return nil, errors.New("--full needs --dead-letters")
	}
	if o.hash != "" && (o.id != "" || o.dead) {
		return nil, errors.New("--hash excludes --id and --dead-letters")
	}
	if len(args) == 0 {
		switch {
		case o.hash != "":
			return a.byHash("", o)
		case o.id != "" && !o.dead:
			return nil, errors.New("--id needs the message's stream, or --dead-letters")
		case o.dead:
			o.deadLetters.ID = o.id
			return func(ctx context.Context, s admin.Admin) error { return a.showDeadLetters(ctx, s, o) }, nil
		}
		return func(ctx context.Context, s admin.Admin) error { return a.showStats(ctx, s, o) }, nil
	}
	stream, group, one := strings.Cut(args[0], "/")
	switch {
	case o.dead:
		return nil, errors.New("--dead-letters takes no stream")
	case one && o.id+o.hash != "":
		return nil, errors.New("--id and --hash take a stream, not a group")
	case one:
		return func(ctx context.Context, s admin.Admin) error { return a.showGroup(ctx, s, stream, group, o) }, nil
	case o.hash != "":
		return a.byHash(stream, o)
	case o.id != "":
		return func(ctx context.Context, s admin.Admin) error { return a.showMessage(ctx, s, stream, o) }, nil
	}
	return func(ctx context.Context, s admin.Admin) error { return a.showGroups(ctx, s, stream, o) }, nil
}

func (a *app) showStats(ctx context.Context, s admin.Admin, o showing) error {
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(a.out, stats)
	}
	rows := [][]string{{"STREAM", "GROUPS", "PENDING", "HELD", "ISSUED", "LEASED", "DONE"}}
	for _, x := range stats.Streams {
		rows = append(rows, append([]string{x.Stream}, numbers(x.Groups, x.Pending, x.Held, x.Issued, x.Leased, x.Done)...))
	}
	if d := stats.Decorators; d != nil {
		rows = append(rows, append([]string{"(decorators)", "", "", ""}, numbers(d.Issued, d.Leased, d.Done)...))
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	rows = [][]string{{"", ""}, {"QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED"}}
	for _, q := range stats.Queues {
		rows = append(rows, append([]string{q.Queue}, numbers(q.Visible, q.InFlight, q.Delayed)...))
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.out, "\n%s, %s\n", verdict(&stats), plural(stats.DeadLetters, "dead letter"))
	return a.warnOfLetters(stats.Queues)
}

// verdict says in a line whether a system has work.
func verdict(stats *admin.Stats) string {
	text := "idle"
	switch {
	case !stats.Idle:
		text = "at work"
	case slices.ContainsFunc(stats.Queues, func(q admin.QueueStats) bool { return q.Delayed > 0 }):
		text += " (delayed triggers check once more what is done)"
	}
	if stats.NotDue > 0 {
		text += fmt.Sprintf(", %s not due", plural(stats.NotDue, "delayed message"))
	}
	if stats.NextDue != nil {
		text += ", the next at " + stamp(stats.NextDue)
	}
	return text
}

func (a *app) showGroups(ctx context.Context, s admin.Admin, stream string, o showing) error {
	groups, err := s.Groups(ctx, admin.GroupsOptions{Stream: stream, After: o.after, Limit: o.limit})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(a.out, append([]admin.GroupInfo{}, groups...))
	}
	if len(groups) == 0 {
		_, err := fmt.Fprintf(a.out, "stream %s has no group records; one without order or state keeps none. Look at a message with: once show %s --id ID%s\n", stream, stream, o.repeat)
		return err
	}
	rows := [][]string{{"GROUP", "VERSION", "LAST NUMBER", "PENDING", "HELD", "SOURCES", "EXPIRES"}}
	for _, g := range groups {
		rows = append(rows, []string{
			g.Group, fmt.Sprint(g.Version), fmt.Sprint(g.LastNumber), fmt.Sprint(len(g.Pending)), fmt.Sprint(g.Held), fmt.Sprint(len(g.Sources)), dash(stamp(g.Expires)),
		})
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	if len(groups) == o.limit {
		_, err = fmt.Fprintf(a.err, "there may be more: once show %s --after=%s%s\n", stream, quoted(groups[len(groups)-1].Group), o.repeat)
	}
	return err
}

func numbers(list ...int) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = fmt.Sprint(n)
	}
	return out
}
