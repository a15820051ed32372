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
	"github.com/effectively-once/once/internal/system/function"
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
once show --dead-letters. It exits with 5 when something could not be put back, and names each of those dead letters with the error; once drop deletes
those that can never be put back.

With --stack the deployed functions do it, each for its own dead-letter queues: what they send is believed, so that a message keeps its principal. They are
called until all that was there at the beginning has been looked at; ctrl-C ends it in the middle, and repeating it goes on. A dead letter is deleted only
when the queue that it came from has acknowledged it. It needs lambda:InvokeFunction and nothing of the queues; with the permission
sqs:GetQueueAttributes, --max tells how many are left. --config must name the configuration that was deployed.`,
		Example: `  once redrive --reason rejected
  once redrive --id order-1
  once redrive --queue ingress-dead.fifo --max 10 --json
  once redrive --stack Once --profile prod --reason rejected`,
		Args: arguments(cobra.NoArgs),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	var o admin.RedriveOptions
	queueFlags(cmd, &o.Queue, &o.Stream, &o.Reason, &o.ID)
	cmd.Flags().IntVar(&o.Max, "max", 0, "put back at most that many; 0 is all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Max < 0 {
			return usageError(cmd, errors.New("--max must be at least 0"))
		}
		if err := checkReason(o.Reason); err != nil {
			return usageError(cmd, err)
		}
		done := a.showRedrive(on.stack)
		return a.look(cmd, on, a.editFolder, func(ctx context.Context, s admin.Admin) error {
			info, err := s.Redrive(ctx, o)
			done()
			nothing := info.Redriven+info.Failed == 0
			switch {
			case err != nil && nothing && info.Left == 0:
				return err
			case err == nil && nothing && o.ID != "":
				return noLetter(s, o.ID)
			}
			return unfinished(errors.Join(a.printRedriven(info, *asJSON), err), info.Failed)
		})
	}
	return cmd
}

// showRedrive prints the progress of a stack's redrive, until done is called.
func (a *app) showRedrive(o *stackOptions) (done func()) {
	var bar *progressbar.ProgressBar
	o.redriven = func(info admin.RedriveInfo) {
		if bar == nil {
			bar = a.progress(-1) // the number is not known
			bar.Describe("putting back")
		}
		_ = bar.Set(info.Redriven) // a closed terminal shows no progress
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
	return errors.Join(err, a.printFailures(info.Failures))
}

// queueFlags adds the flags that select dead letters, with completion.
func queueFlags(cmd *cobra.Command, queue, stream, reason, id *string) {
	f := cmd.Flags()
	f.StringVar(queue, "queue", "", "only this dead-letter queue")
	f.StringVar(reason, "reason", "", "only dead letters with this reason, as key-reuse, unknown or rejected")
	if stream != nil {
		f.StringVar(stream, "stream", "", "only dead letters of this stream")
	}
	if id != nil {
		f.StringVar(id, "id", "", "only dead letters with this id: of a message, an effect, or a queue's message")
	}
	completeFlag(cmd, "queue", queueNames())
	completeFlag(cmd, "reason", reasonNames())
}

// completeFlag completes fixed values of a flag.
func completeFlag(cmd *cobra.Command, flag string, values []string) {
	// fails only for an unknown flag
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// queueNames returns the names of the dead-letter queues of a data folder or a stack.
func queueNames() []string {
	return []string{function.DeadIngress, function.DeadIngressFIFO, function.DeadPublish, function.DeadPublishFIFO}
}

func reasonNames() []string {
	names := make([]string, len(reasons()))
	for i, r := range reasons() {
		names[i] = string(r)
	}
	return names
}

// reasons returns the reasons that dead letters may have.
func reasons() []record.Reason {
	return []record.Reason{
		record.ReasonKeyReuse, record.ReasonUnknown, record.ReasonExpired, record.ReasonStaleEpoch, record.ReasonSkipped, record.ReasonGap,
		record.ReasonInvalid, record.ReasonHandler, record.ReasonAttempts, record.ReasonDeleted, record.ReasonGone, record.ReasonLimit,
	}
}

// checkReason refuses an unknown reason: with a misspelt one there would seem to be no dead
// letters. An empty reason means any.
func checkReason(reason string) error {
	if reason == "" || slices.Contains(reasons(), record.Reason(reason)) {
		return nil
	}
	return fmt.Errorf("--reason %q must be one of %s", reason, strings.Join(reasonNames(), ", "))
}

func unfinished(err error, failed int) error {
	if err == nil && failed > 0 {
		return &exitError{code: exitIncomplete}
	}
	return err
}
