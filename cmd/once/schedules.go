package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/schedule"
)

const schedulesLong = `Schedules lists the schedules of the configuration, with the time of the next message and that of the last one. All times are in UTC.

LAST is the time for which the last message was sent, and SENT when it was put on the queue. MISSED counts the times for which nothing was sent, because
nothing ran when they passed: of those only the latest one is sent, late. STATE is

  waiting  for NEXT
  new      no server has seen the schedule yet; it begins when one does
  changed  no server has seen its present times yet; they begin when one does
  due      NEXT has passed, and its message is not sent yet: is a server running?
  sending  the message of NEXT was begun, and it is not known to be on the queue; it is sent again under the same id
  behind   the clock is behind LAST: nothing is sent until the clock has caught up

A message has the id NAME/TIME, as in nightly/2026-11-27T03:00:00Z: once show STREAM --id ID shows what became of it.

Without a data folder, such as before the first once dev, all schedules of the configuration file are new, unless --data names a folder.

With --stack it reads the configuration of the process function (lambda:GetFunction) and the records of the schedules (dynamodb:BatchGetItem).`

func (a *app) schedules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List the schedules, with their next and last times",
		Long:  schedulesLong,
		Example: `  once schedules
  once schedules --json | jq '.[] | select(.state == "due")'
  once schedules --stack Once --region eu-west-1`,
		Args: arguments(cobra.NoArgs),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var list []schedule.Info
		err := a.look(cmd, on, a.inspectFolder, func(ctx context.Context, s admin.Admin) (err error) {
			list, err = s.Schedules(ctx)
			return err
		})
		if errors.Is(err, errNoFolder) && !cmd.Flags().Changed("data") {
			list, err = a.newSchedules(cmd, *on.config, err)
		}
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(a.out, list)
		}
		return a.printSchedules(list)
	}
	return cmd
}

// newSchedules lists the schedules of the configuration file as new. The text of noFolder is a
// warning, because a server may use another folder. If there is no file, it is the error.
func (a *app) newSchedules(cmd *cobra.Command, path string, noFolder error) ([]schedule.Info, error) {
	c, err := load(cmd, path)
	switch {
	case err != nil:
		return nil, err
	case c.file == "":
		return nil, noFolder
	}
	_, _ = fmt.Fprintf(a.err, "warning: %v. The schedules below are those of %s\n", noFolder, c.source())
	return schedule.List(cmd.Context(), memstore.New(time.Now), c.ScheduleSettings(), time.Now())
}

func (a *app) printSchedules(list []schedule.Info) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.out, "there are no schedules")
		return err
	}
	rows := [][]string{{"SCHEDULE", "CRON", "TIMEZONE", "STREAM", "GROUP", "STATE", "NEXT", "LAST", "SENT", "MISSED"}}
	for i := range list {
		x := &list[i]
		rows = append(rows, []string{
			x.Schedule, x.Cron, x.Timezone, x.Stream, x.Group, string(x.State), utc(x.Next), utc(x.Last), utc(x.Sent), fmt.Sprint(x.Missed),
		})
	}
	return table(a.out, rows)
}

// utc returns a time of a schedule, or - if there is none.
func utc(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
