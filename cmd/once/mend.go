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
	"github.com/effectively-once/once/internal/system/function/tasks"
)

func (a *app) sweep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Finish what crashed workers left behind",
		Long: `Sweep visits every group: it publishes pending effects, runs held messages whose predecessors are there, acts on gaps, and deletes expired records. A
running server does this by itself from time to time. Repeating it is harmless. It exits with 5 if a group could not be finished. A
group that still holds messages, because one before them is missing, is counted as waiting: once show STREAM/GROUP names the number.

With --stack it reads the whole table of groups, which costs a read unit for every 4 KB, and asks the deployed functions to publish pending effects. It
invokes the function of the scheduled sweep to process held messages, because handlers run only in the functions. The tables delete expired records
themselves. The configuration is read from the process function, which needs lambda:GetFunction; or --config names the file that was deployed.`,
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
				waiting := ""
				if info.Waiting > 0 {
					waiting = fmt.Sprintf("%d waiting for a missing message, ", info.Waiting)
				}
				_, err = fmt.Fprintf(a.out, "looked at %s: %d finished, %s%d failed; deleted %s and %s\n", plural(info.Groups, "group"),
					info.Finished, waiting, info.Failed, plural(info.Expired, "expired record"), plural(info.Blobs, "stray blob"))
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
		Long: `Redrive puts messages and effects from the dead-letter queues back into the queues that they came from, under their old identities: a message that
was processed before is recognised. The dead letter of a pool's entry gets an identity of its own instead, because the old one counts as processed: it
is appended and dealt again once, and its entry has the key of the first one as redelivery_of. Fix the cause first: a message that is refused again
becomes a dead letter again. once show --dead-letters lists them. If a dead letter could not be put back, redrive names it with the error and exits
with 5; once drop deletes those that can never be put back.

A message that its handler rejected is answered: its sender was told no, or is told so when it asks, and may have acted on that. Such a dead letter
stays, and is counted; the exit code is 5. --answered puts it back too: the answer is forgotten, the message is processed, and its new outcome is the
answer from then on. This is logged with the name of the user.

With --stack the deployed functions redrive, each its own dead-letter queues, because only they are trusted to say who sent a message. They are called
until all dead letters that were there at the beginning are done; ctrl-C stops it, and the same command continues. A dead letter is deleted only
when the queue that it came from has acknowledged it. It needs lambda:InvokeFunction and no permissions on the queues; with the permission
sqs:GetQueueAttributes, --max prints how many are left. It needs no configuration.`,
		Example: `  once redrive --reason attempts
  once redrive --id order-1 --answered
  once redrive --queue ingress-dead.fifo --max 10 --json
  once redrive --stack Once --profile prod --reason undeliverable`,
		Args: arguments(cobra.NoArgs),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	var o admin.RedriveOptions
	queueFlags(cmd, &o.Queue, &o.Stream, &o.Reason, &o.ID)
	cmd.Flags().IntVar(&o.Max, "max", 0, "put back at most this many; 0 is all")
	cmd.Flags().BoolVar(&o.Answered, "answered", false, "put back dead letters whose senders were told no, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Max < 0 {
			return usageError(cmd, errors.New("--max must be at least 0"))
		}
		if err := checkReason(o.Reason); err != nil {
			return usageError(cmd, err)
		}
		if on.stack.Name == "" {
			o.By = operator()
		}
		done := a.showRedrive(on.stack)
		return a.look(cmd, on, a.editFolder, func(ctx context.Context, s admin.Admin) error {
			info, err := s.Redrive(ctx, o)
			done()
			nothing := info.Redriven+info.Answered+info.Failed == 0
			switch {
			case err != nil && nothing && info.Left == 0:
				return err
			case err == nil && nothing && o.ID != "":
				return noLetter(s, o.ID)
			}
			return unfinished(errors.Join(a.printRedriven(info, *asJSON), err), info.Answered+info.Failed)
		})
	}
	return cmd
}

// showRedrive prints the progress of a stack's redrive, until done is called.
func (a *app) showRedrive(o *stackOptions) (done func()) {
	var bar *progressbar.ProgressBar
	o.redriven = func(info admin.RedriveInfo) {
		if bar == nil {
			bar = a.progress(-1, "sending", "messages") // the number is not known
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
	text := fmt.Sprintf("put back %s; %d left, %d failed\n", plural(info.Redriven, "dead letter"), info.Left, info.Failed)
	if info.Answered > 0 {
		text += fmt.Sprintf("not put back: %s; the senders were told no, --answered processes the messages nevertheless\n", plural(info.Answered, "dead letter"))
	}
	_, err := fmt.Fprint(a.out, text)
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
		f.StringVar(id, "id", "", "only dead letters with this id: of a message, an effect, or a queue's message; of an entry of a pool also its key, which takes all letters that have it")
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
	return []string{tasks.DeadIngress, tasks.DeadIngressFIFO, tasks.DeadPublish, tasks.DeadPublishFIFO}
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
		record.ReasonInvalid, record.ReasonHandler, record.ReasonAttempts, record.ReasonUnreadable, record.ReasonEnded, record.ReasonDeleted, record.ReasonUndeliverable, record.ReasonLoop, record.ReasonGone, record.ReasonLimit,
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
