package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
)

const (
	// dropListed is how many dead letters are listed before the question whether to drop them.
	dropListed = 20
	// dropCounted limits the dead letters that are dropped after one question.
	dropCounted = 1000
)

// dropping holds the arguments of drop.
type dropping struct {
	admin.DropOptions
	yes, json bool
}

func (a *app) drop() *cobra.Command {
	var o dropping
	cmd := &cobra.Command{
		Use:   "drop --id ID | --reason REASON",
		Short: "Delete dead letters for ever",
		Long: `Drop deletes dead letters that can never be put back. It lists them and asks before it deletes; --yes does not ask, and is needed without a
terminal. A message that is dropped is lost: look at it first with once show --dead-letters --id, and prefer once redrive.
Dead letters that arrive while it asks stay. Different streams may have the same id: --stream names one. Each dead letter that was dropped is logged with the name
of the user: by the server, by the function, or on standard error.

With --stack the deployed functions delete them, as for once redrive. To list them before the question, it receives them.`,
		Example: `  once drop --id order-1 --stream orders
  once drop --reason key-reuse --queue ingress-dead
  once drop --reason invalid --yes --json
  once drop --id order-1 --stack Once --profile prod`,
		Args: arguments(cobra.NoArgs),
	}
	on, asJSON := targetFlags(cmd), jsonFlag(cmd)
	queueFlags(cmd, &o.Queue, &o.Stream, &o.Reason, &o.ID)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.json = *asJSON
		if on.stack.Name == "" {
			o.By = operator()
		}
		if err := errors.Join(o.Validate(), checkReason(o.Reason)); err != nil {
			return usageError(cmd, err)
		}
		if !o.yes && !a.typed {
			return usageError(cmd, errors.New("no terminal to confirm on: --yes drops without asking"))
		}
		return a.look(cmd, on, a.editFolder, func(ctx context.Context, s admin.Admin) error { return a.dropFrom(ctx, s, o) })
	}
	return cmd
}

func (a *app) dropFrom(ctx context.Context, s admin.Admin, o dropping) error {
	if !o.yes {
		ok, err := a.confirm(ctx, s, &o)
		if !ok || err != nil {
			return err
		}
	}
	info, err := s.Drop(ctx, o.DropOptions)
	if err != nil && info.Dropped == 0 {
		return err
	}
	if err == nil && info.Dropped == 0 && o.ID != "" {
		return noLetter(s, o.ID)
	}
	return errors.Join(a.printDropped(info, o), err)
}

// operator returns the name of the user who runs the command, for the log.
func operator() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// confirm lists the dead letters that o selects and asks whether to drop them. Afterwards o selects
// these only.
func (a *app) confirm(ctx context.Context, s admin.Admin, o *dropping) (bool, error) {
	letters, err := s.DeadLetters(ctx, admin.DeadLettersOptions{Queue: o.Queue, Stream: o.Stream, Reason: o.Reason, ID: o.ID, Limit: dropCounted})
	switch {
	case err != nil:
		return false, err
	case len(letters) == 0 && o.ID != "":
		return false, noLetter(s, o.ID)
	case len(letters) == 0:
		return false, a.printDropped(admin.DropInfo{Letters: []admin.DeadLetter{}}, *o)
	}
	count := plural(len(letters), "dead letter")
	if len(letters) == dropCounted {
		count = fmt.Sprintf("the first %d dead letters", dropCounted)
	}
	for i := range letters {
		o.MessageIDs = append(append(o.MessageIDs, letters[i].MessageID), letters[i].Copies...)
	}
	if err := table(a.err, letterRows(letters[:min(len(letters), dropListed)])); err != nil {
		return false, err
	}
	if more := len(letters) - dropListed; more > 0 {
		_, _ = fmt.Fprintf(a.err, "… and %d more\n", more)
	}
	return a.ask("drop "+count+" for ever?", "nothing was dropped")
}

// ask asks a question that only y or yes answers with yes. Any other answer is the error no.
func (a *app) ask(question, no string) (bool, error) {
	if err := a.note(question + " [y/N] "); err != nil {
		return false, err
	}
	answer, _ := bufio.NewReader(a.in).ReadString('\n') // the end of the input does not mean yes
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, &exitError{exitIncomplete, errors.New(no)}
}

func (a *app) printDropped(info admin.DropInfo, o dropping) error {
	if o.json {
		return printJSON(a.out, info)
	}
	if o.yes && len(info.Letters) > 0 { // otherwise they were listed before
		if err := table(a.out, letterRows(info.Letters)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.out, "dropped %s\n", plural(info.Dropped, "dead letter"))
	return err
}
