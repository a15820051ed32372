package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/config/change"
	"github.com/effectively-once/once/internal/system/deployed"
)

// checkedChange is the JSON output of check for a stack and a file.
type checkedChange struct {
	Stack  string `json:"stack"`
	Region string `json:"region"`
	File   string `json:"file"`
	// Same is true if the file means the same as the deployed configuration.
	Same bool `json:"same"`
	// Waiting is what waits. It is nil if no change depends on it, or if it could not be read.
	Waiting *change.Waiting `json:"waiting,omitempty"`
	Changes []change.Change `json:"changes"`
	// NoQueue names the sources of the file that have no queue in the stack.
	NoQueue []string `json:"no_queue,omitempty"`
}

// checkChange compares a file with the deployed configuration.
func (a *app) checkChange(cmd *cobra.Command, c configured, o *stackOptions, asJSON bool) error {
	found, err := deployed.Open(cmd.Context(), o.Options)
	if err != nil {
		return err
	}
	now, err := found.Configuration(cmd.Context())
	if err != nil {
		return err
	}
	out := checkedChange{Stack: found.Name, Region: found.Region, File: c.file, Same: reflect.DeepEqual(now, c.Config)}
	unread := a.weigh(cmd.Context(), found, now, c.Config, &out)
	if out.NoQueue, err = found.SourcesWithoutQueue(cmd.Context(), c.Config); err != nil {
		return err
	}
	if asJSON {
		err = printJSON(a.out, out)
	} else {
		err = a.printChanges(out)
	}
	return errors.Join(err, verdictOfChanges(out.Changes, unread))
}

// weigh lists the changes, and counts what waits if one of them depends on that. If it can't be
// counted, it returns the error, and such changes are marked as unknown.
func (a *app) weigh(ctx context.Context, found *deployed.Stack, from, to *config.Config, out *checkedChange) error {
	out.Changes = append([]change.Change{}, change.Compare(from, to, nil)...)
	if !change.Undecided(out.Changes) {
		return nil
	}
	system, err := found.System(deployed.SystemOptions{Log: a.stackLog()})
	if err != nil {
		return err
	}
	waiting, err := system.Waiting(ctx)
	if err != nil {
		return err
	}
	out.Waiting, out.Changes = &waiting, change.Compare(from, to, &waiting)
	return nil
}

func (a *app) printChanges(out checkedChange) error {
	text := fmt.Sprintf("%s has no change of %s that needs care\n", out.File, out.Stack)
	switch {
	case out.Same:
		text = fmt.Sprintf("%s is what is deployed as %s\n", out.File, out.Stack)
	case len(out.Changes) > 0:
		text = fmt.Sprintf("%s has %s of %s to look at\n\n", out.File, plural(len(out.Changes), "change"), out.Stack)
	}
	for _, c := range out.Changes {
		verdict := "ok now"
		switch {
		case c.Risk:
			verdict = "RISK"
		case c.Unknown:
			verdict = "unknown"
		}
		waits := ""
		if c.Waiting != "" {
			waits = " (" + c.Waiting + ")"
		}
		text += fmt.Sprintf("%s: %s: %s%s: %s. To do: %s.\n", verdict, c.Subject, safe(c.Change), waits, c.Effect, c.Do)
	}
	for _, name := range out.NoQueue {
		text += fmt.Sprintf("note: source %s: the stack has no queue for it, and only the template makes one. To do: deploy the template with the file, "+
			"not only the file; then once check --stack must find the queue.\n", safe(name))
	}
	_, err := fmt.Fprint(a.out, text)
	return err
}

// verdictOfChanges returns the exit code: failed if a change is a risk, incomplete if that could
// not be decided because of an error.
func verdictOfChanges(changes []change.Change, unread error) error {
	risky := change.Risky(changes)
	switch {
	case risky > 0:
		return &exitError{exitFailed, errors.Join(fmt.Errorf("%s would hurt what waits", plural(risky, "change")), unread)}
	case unread != nil:
		return &exitError{exitIncomplete, fmt.Errorf("count what waits: %w", unread)}
	}
	return nil
}
