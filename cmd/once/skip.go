package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/plain"
)

func (a *app) skip() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "skip STREAM/GROUP NUMBER",
		Short: "Make a pending effect a dead letter, so that its group continues",
		Long: `Skip ends the tries of one effect that its destination does not accept: the effect becomes a dead letter with the reason undeliverable, as at the end
of the destination's retry policy, and the later effects of its group are sent. Nothing is lost: once redrive sends it later. once show
STREAM/GROUP lists the pending effects with their numbers. Skip asks first; --yes does not ask, and is needed without a terminal. An effect that is
being sent at this moment may arrive and be a dead letter as well. It exits with 6 if no effect with this number is pending.

With --stack the deployed publish function skips it. This needs lambda:InvokeFunction, and dynamodb:BatchGetItem to show the effect before the question.`,
		Example: `  once skip orders/customer-7 3
  once skip orders/customer-7 3 --yes --json
  once skip orders/customer-7 3 --stack Once --profile prod`,
		Args: arguments(cobra.ExactArgs(2)),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		stream, group, ok := strings.Cut(args[0], "/")
		number, err := strconv.ParseUint(args[1], 10, 64)
		switch {
		case !ok || stream == "" || group == "":
			return usageError(cmd, fmt.Errorf("%q does not name a group: write STREAM/GROUP", args[0]))
		case err != nil:
			return usageError(cmd, fmt.Errorf("%q is no number of an effect", args[1]))
		case !yes && !a.typed:
			return usageError(cmd, errors.New("standard input is no terminal, so the question can't be answered: --yes skips without asking"))
		}
		o := admin.SkipOptions{Stream: stream, Group: group, Number: number}
		return a.look(cmd, on, a.editFolder, func(ctx context.Context, s admin.Admin) error {
			if !yes {
				if ok, err := a.confirmSkip(ctx, s, o); !ok || err != nil {
					return err
				}
			}
			info, err := s.Skip(ctx, o)
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(a.out, info)
			}
			_, err = fmt.Fprintf(a.out, "effect %d is a dead letter for %s; to send it after all: once redrive --id %s\n",
				number, strings.Join(info.Destinations, ", "), safe(fmt.Sprintf("%s/%d", args[0], number)))
			return err
		})
	}
	return cmd
}

// confirmSkip shows what is known about the effect, and asks whether to skip it.
func (a *app) confirmSkip(ctx context.Context, s admin.Admin, o admin.SkipOptions) (bool, error) {
	g, err := s.Group(ctx, o.Stream, o.Group)
	if errors.Is(err, admin.ErrNotFound) {
		return false, o.NotPending()
	}
	if err != nil {
		return false, err
	}
	for i := range g.Pending {
		p := &g.Pending[i]
		if o.Number < p.Number || o.Number-p.Number >= uint64(p.Effects) { //nolint:gosec // a count
			continue
		}
		var text strings.Builder
		fmt.Fprintf(&text, "effect %d of message %s\n", o.Number, safe(p.ID))
		for _, w := range g.Waiting {
			if w.For == admin.WaitDestination && w.Number == o.Number {
				fmt.Fprintf(&text, "the group waits for %s\n", safe(plain.Wait(&w)))
			}
		}
		if err := a.note(text.String()); err != nil {
			return false, err
		}
		return a.ask("make it a dead letter?", "nothing was skipped")
	}
	return false, o.NotPending()
}
