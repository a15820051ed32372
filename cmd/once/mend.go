package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
)

func (a *app) sweep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Finish what crashed workers left behind",
		Long: `Sweep looks at every group: it publishes what is pending, drains what can run, acts on gaps, and deletes records that have expired. A running
server does this by itself from time to time. Repeating it is harmless. It exits with 5 when a group could not be finished.

With --stack it reads the whole table of groups, which costs a read unit for every 4 KB, asks the deployed functions to publish what is pending, and
has the function of the scheduled sweep process held messages that can run, because handlers run in the functions only. Expired records are the tables'
to delete. --config must name the configuration that was deployed.`,
		Example: `  once sweep
  once sweep --data /var/lib/once --json
  once sweep --stack Once`,
		Args: arguments(cobra.NoArgs),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.look(cmd, on, a.repairFolder, func(ctx context.Context, s admin.Admin) error {
			info, err := s.Sweep(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				err = printJSON(a.out, info)
			} else {
				_, err = fmt.Fprintf(a.out, "looked at %s: %d finished, %d failed; deleted %s and %s\n", plural(info.Groups, "group"),
					info.Finished, info.Failed, plural(info.Expired, "expired record"), plural(info.Blobs, "stray blob"))
			}
			return unfinished(err, info.Failed)
		})
	}
	return cmd
}

func (a *app) redrive() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Put dead letters back under their identities",
		Long: `Redrive takes messages and effects off the dead-letter queues and puts them back where they came from, under the identities that they had: what was
processed before is recognised. Mend the cause first: what is refused again comes back to the dead-letter queue. To see what is there:
once show --dead-letters. It exits with 5 when something could not be put back.

With --stack the deployed functions do it, each for its own dead-letter queues: what they send is believed, so that a message keeps its principal. They are
called until all that was there at the beginning has been looked at; ctrl-C ends it in the middle, and repeating it goes on. A dead letter is deleted only
when the queue that it came from has acknowledged it. It needs lambda:InvokeFunction and nothing of the queues; with the permission
sqs:GetQueueAttributes, --max tells how many are left. --config must name the configuration that was deployed.`,
		Example: `  once redrive --reason rejected
  once redrive --queue ingress-dead.fifo --max 10 --json
  once redrive --stack Once --profile prod --reason rejected`,
		Args: arguments(cobra.NoArgs),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	var o admin.RedriveOptions
	queueFlags(cmd, &o.Queue, &o.Reason)
	cmd.Flags().IntVar(&o.Max, "max", 0, "put back at most that many; 0 is all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Max < 0 {
			return usageError(cmd, errors.New("--max must be at least 0"))
		}
		if err := checkReason(o.Reason); err != nil {
			return usageError(cmd, err)
		}
		done := a.showRedrive(on.stack)
		return a.look(cmd, on, a.repairFolder, func(ctx context.Context, s admin.Admin) error {
			info, err := s.Redrive(ctx, o)
			done()
			if err != nil && info == (admin.RedriveInfo{}) {
				return err
			}
			return unfinished(errors.Join(a.printRedriven(info, *asJSON), err), info.Failed)
		})
	}
	return cmd
}

// showRedrive shows how far the redrive of a stack has come, until it is done.
func (a *app) showRedrive(o *stackOptions) (done func()) {
	var bar *progressbar.ProgressBar
	o.redriven = func(info admin.RedriveInfo) {
		if bar == nil {
			bar = a.progress(-1) // nobody knows how many there are
			bar.Describe("putting back")
		}
		_ = bar.Set(info.Redriven) // a terminal that is gone shows no progress
	}
	return func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
}

func (a *app) printRedriven(info admin.RedriveInfo, asJSON bool) error {
	if asJSON {
		return printJSON(a.out, info)
	}
	_, err := fmt.Fprintf(a.out, "put back %s; %d left, %d failed\n", plural(info.Redriven, "dead letter"), info.Left, info.Failed)
	return err
}

func queueFlags(cmd *cobra.Command, queue, reason *string) {
	cmd.Flags().StringVar(queue, "queue", "", "only this dead-letter queue")
	cmd.Flags().StringVar(reason, "reason", "", "only dead letters with this reason, as key-reuse, unknown or rejected")
}

// reasons are those that dead letters may have.
func reasons() []record.Reason {
	return []record.Reason{
		record.ReasonKeyReuse, record.ReasonUnknown, record.ReasonExpired, record.ReasonStaleEpoch, record.ReasonSkipped, record.ReasonGap,
		record.ReasonInvalid, record.ReasonHandler, record.ReasonAttempts, record.ReasonDeleted, record.ReasonGone, record.ReasonLimit,
	}
}

// checkReason refuses a reason that no dead letter has: a misspelt one would look as if there were none. Empty is any.
func checkReason(reason string) error {
	if reason == "" || slices.Contains(reasons(), record.Reason(reason)) {
		return nil
	}
	names := make([]string, len(reasons()))
	for i, r := range reasons() {
		names[i] = string(r)
	}
	return fmt.Errorf("--reason %q must be one of %s", reason, strings.Join(names, ", "))
}

func unfinished(err error, failed int) error {
	if err == nil && failed > 0 {
		return &exitError{code: exitIncomplete}
	}
	return err
}
