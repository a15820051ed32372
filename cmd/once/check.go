package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// checked is the JSON output of check.
type checked struct {
	File         string                        `json:"file,omitempty"`
	Valid        bool                          `json:"valid"`
	Streams      map[string]config.Stream      `json:"streams,omitempty"`
	Destinations map[string]config.Destination `json:"destinations,omitempty"`
	Handlers     map[string]config.Handler     `json:"handlers,omitempty"`
	Schedules    map[string]checkedSchedule    `json:"schedules,omitempty"`
	Callers      []checkedCaller               `json:"callers,omitempty"`
	Warnings     []string                      `json:"warnings"`
	Problems     []config.Problem              `json:"problems"`
}

// A checkedSchedule is a schedule with its next times.
type checkedSchedule struct {
	config.Schedule
	Next []time.Time `json:"next"`
}

// shownTimes is how many times of a schedule check shows.
const shownTimes = 3

// scheduled returns the schedules with their times after now.
func scheduled(c *config.Config, now time.Time) map[string]checkedSchedule {
	out := map[string]checkedSchedule{}
	for _, name := range c.ScheduleNames() {
		s := c.Schedules[name].Settings(name)
		table, _ := s.Timetable() // it was read before
		x := checkedSchedule{c.Schedules[name], []time.Time{}}
		for next := table.Next(now); !next.IsZero() && len(x.Next) < shownTimes; next = table.Next(next) {
			x.Next = append(x.Next, next)
		}
		out[name] = x
	}
	return out
}

func (a *app) check() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, or a deployed system",
		Long: `Check reads the configuration and lists every mistake in it, with file, line and field. For a valid configuration it prints a summary, and on
standard error warnings about settings that are allowed but probably not intended. Warnings do not change the exit code.

RETENTION is how long a done message is remembered, STATE how long the state of a group outlives its last message (forever is until the handler deletes
it; a stream without a handler in the file shows only what is set), LOG how long the entries of the stream's logs can be read, POOL how the stream's
pool deals entries out and what follows the last failed try of one. The numbers of a group without state are remembered for 30 days after its last
message, or for LOG if that is longer. NEXT TIMES are the next times of a schedule, in UTC.

CALLER lists who has a key of server.auth, and the streams for which it has each role. A caller without an entry in server.auth.roles may only send.

With --stack it checks a deployed system: its tables with their time-to-live and recovery, its queues with their event source mappings, whether
its functions run with the same configuration, and whether each source of it has a queue. It exits with 1 if a check failed, and with 5 if a check could not be made.

With --stack and --config it says what deploying the file would do to what waits in the system: each change after which messages would be lost,
stuck, or taken for others, with what to do about it. It reads the deployed configuration (lambda:GetFunction on the process function), and if a change
depends on what waits, the table of groups (dynamodb:Scan, a read unit for every 4 KB) and the counts of the queues (sqs:GetQueueAttributes). The counts of queues
are SQS's estimates. It exits with 1 if a change is a risk now, and with 5 if the counts could not be read. It also names the sources of the file
that have no queue in the stack: only a deployed template makes queues.

With --stack check only reads.`,
		Example: `  once check
  once check --config other.yaml --json | jq .problems
  once check --stack Once --json | jq '.findings[] | select(.verdict != "ok")'
  once check --stack Once --config new.yaml          # before a deployment
  once check --stack Once --config new.yaml --json | jq '.changes[] | select(.risk)'`,
		Args: arguments(cobra.NoArgs),
	}
	path, on, asJSON := configFlag(cmd), stackFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := on.check(cmd); err != nil {
			return usageError(cmd, err)
		}
		if on.Name != "" && !cmd.Flags().Changed("config") {
			return a.checkStack(cmd, on, *asJSON)
		}
		c, err := load(cmd, *path)
		var invalid *config.InvalidError
		if errors.As(err, &invalid) && *asJSON {
			out := checked{File: *path, Warnings: []string{}, Problems: invalid.Problems}
			return errors.Join(printJSON(a.out, out), &exitError{code: exitUsage})
		}
		if err != nil {
			return err
		}
		if err := c.CheckRestores(time.Now()); err != nil {
			return &exitError{code: exitUsage, err: fmt.Errorf("%s: %w", c.source(), err)}
		}
		if on.Name != "" {
			return a.checkChange(cmd, c, on, *asJSON)
		}
		warnings := append(append([]string{}, c.Warnings()...), c.ExecWarnings()...)
		for _, w := range c.MissingSecrets() {
			warnings = append(warnings, w+": once dev does not start without it")
		}
		callers, dubious := callersOf(c.Config)
		warnings = append(append(append(warnings, c.ServerWarnings()...), dubious...), c.StateWarnings()...)
		if *asJSON {
			return printJSON(a.out, checked{c.file, true, c.Streams, c.Destinations, c.Handlers, scheduled(c.Config, time.Now()), callers, warnings, []config.Problem{}})
		}
		for _, w := range warnings {
			_, _ = fmt.Fprintln(a.err, "warning: "+w)
		}
		return a.summary(c, callers)
	}
	return cmd
}

func (a *app) summary(c configured, callers []checkedCaller) error {
	_, _ = fmt.Fprintf(a.out, "%s is valid: %s, %s\n\n", c.source(), plural(len(c.Streams), "stream"), plural(len(c.Destinations), "destination"))
	rows := [][]string{{"STREAM", "ADMISSION", "ORDER", "RETENTION", "STATE", "GAP", "LOG", "POOL", "DESTINATIONS"}}
	for _, name := range c.StreamNames() {
		s := c.Streams[name]
		rows = append(rows, []string{name, string(s.Admission), string(s.Order), retention(s), c.stateOf(name), gap(s), logOf(s), poolOf(s), dash(strings.Join(s.Destinations, ", "))})
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	if n := len(c.Restores); n > 0 {
		_, _ = fmt.Fprintf(a.out, "\n%s, the last at %s\n", plural(n, "restore"), c.Restores[n-1].Format(time.RFC3339))
	}
	if d := c.DeadLetters.WithDefaults(); c.DeadLetters != (config.DeadLetters{}) {
		_, _ = fmt.Fprintf(a.out, "\ndead letters are kept for %s, at most %d in a queue\n", d.Retain, d.Most)
	}
	if err := a.summarizeSchedules(c.Config); err != nil {
		return err
	}
	rows = [][]string{{"", ""}, {"DESTINATION", "KIND", "TARGET"}}
	for _, name := range c.DestinationNames() {
		d := c.Destinations[name]
		rows = append(rows, []string{name, string(d.Kind()), visible(d)})
	}
	if len(c.Destinations) > 0 {
		if err := table(a.out, rows); err != nil {
			return err
		}
	}
	if err := a.handlers(c); err != nil {
		return err
	}
	return a.callers(c, callers)
}

// visibleHandler is [visible] for a handler.
func visibleHandler(h config.Handler) string {
	if h.Kind() == config.HandlerURL {
		return visibleURL(h.URL)
	}
	return h.Target()
}

// handlers prints the handlers in other languages, if there are any.
func (a *app) handlers(c configured) error {
	if len(c.Handlers) == 0 {
		return nil
	}
	rows := [][]string{{"", ""}, {"HANDLER", "KIND", "TARGET", "TIMEOUT", "BATCH", "CONCURRENCY"}}
	for _, name := range c.HandlerNames() {
		h := c.Handlers[name].WithDefaults()
		batch := strconv.Itoa(h.Batch)
		if h.Kind() == config.HandlerCode {
			batch = "1"
		}
		rows = append(rows, []string{name, string(h.Kind()), dash(visibleHandler(h)), h.Timeout.String(), batch, strconv.Itoa(h.Concurrency)})
	}
	return table(a.out, rows)
}

// summarizeSchedules prints the schedules with their next times.
func (a *app) summarizeSchedules(c *config.Config) error {
	if len(c.Schedules) == 0 {
		return nil
	}
	rows := [][]string{{"", ""}, {"SCHEDULE", "CRON", "TIMEZONE", "STREAM", "NEXT TIMES"}}
	found := scheduled(c, time.Now())
	for _, name := range c.ScheduleNames() {
		x := found[name]
		var next []string
		for _, at := range x.Next {
			next = append(next, at.Format(time.RFC3339))
		}
		rows = append(rows, []string{name, x.Cron, cmp.Or(x.Timezone, "UTC"), x.Stream, strings.Join(next, ", ")})
	}
	return table(a.out, rows)
}

func retention(s config.Stream) string {
	return cmp.Or(s.Retention, config.Duration(record.DefaultRetention)).String()
}

// stateOf returns how long the state of a group outlives its last message. If the file
// has no handler for the stream, it returns "-": a handler in code may still keep a state.
func (c configured) stateOf(name string) string {
	retain := c.Streams[name].State.Retain
	if _, handled := c.Handlers[name]; !handled && retain == 0 {
		return "-"
	}
	return cmp.Or(retain, config.Forever).String()
}

// logOf returns how long entries of the stream's logs can be read.
func logOf(s config.Stream) string {
	if d := s.Settings("").LogRetention; d > 0 {
		return config.Duration(d).String()
	}
	return "-"
}

// poolOf returns how the stream's pool deals entries out, and what follows the last failed try of
// one.
func poolOf(s config.Stream) string {
	if s.Pool == nil {
		return "-"
	}
	return string(cmp.Or(s.Pool.Deal, config.DealRange)) + ", " + string(cmp.Or(s.Pool.Poison, config.PoisonStop))
}

func gap(s config.Stream) string {
	switch {
	case s.Gap.Policy == "":
		return "-"
	case s.Gap.After == 0:
		return string(s.Gap.Policy)
	}
	return string(s.Gap.Policy) + " after " + s.Gap.After.String()
}
