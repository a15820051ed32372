package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
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
		return a.look(cmd, on, a.inspectFolder, func(ctx context.Context, s admin.Admin) error {
			list, err := s.Schedules(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(a.out, list)
			}
			return a.printSchedules(list)
		})
	}
	return cmd
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
