package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
)

// operating holds the arguments of the commands that change a session.
type operating struct {
	*place
	session             client.SessionOptions
	take, lease         string
	fence               uint64
	cursor, from, skip  uint64
	file                string
	server, yes, asJSON bool
}

const sessionLong = `Session changes a session by hand: it takes it from its holder, releases it, closes it for good, or decides where it continues.

The name of a session is that of a reader, not of a process: to replace a consumer that never returns, start another one with the same --session; it
waits for the lease, or takes the session with --take now. Retire a session if nobody is to take its place: its unread entries go to the others.`

func (a *app) session() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Take, release or retire a session, or decide where it continues",
		Long:  sessionLong,
		Example: `  once session take work a
  once session release work a
  once session retire work a --file out.jsonl
  once session from work a --from 346`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.takeSession(), a.releaseSession(), a.retireSession(), a.fromSession())
	return cmd
}

// operation adds the common flags and checks of the commands.
func (a *app) operation(cmd *cobra.Command, run func(ctx context.Context, c *client.Client, o *operating) error) *operating {
	o := &operating{place: placeFlags(cmd)}
	f := cmd.Flags()
	f.StringVar(&o.session.Group, "group", "", "the session is of the log of this group")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	cmd.Args, cmd.ValidArgsFunction = arguments(streamAndSession), a.completeSession
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.session.Stream, o.session.Name = args[0], args[1]
		if err := o.check(cmd); err != nil {
			return usageError(cmd, err)
		}
		if f.Lookup("yes") != nil && !o.yes && !a.typed {
			return usageError(cmd, errors.New("no terminal to confirm on: --yes does it without asking"))
		}
		return a.call(cmd, o.place, func(ctx context.Context, c *client.Client) error { return run(ctx, c, o) })
	}
	return o
}

// check checks the flags.
func (o *operating) check(cmd *cobra.Command) error {
	take, lease := string(client.TakeNow), "30s"
	if cmd.Flags().Lookup("take") != nil {
		take, lease = o.take, o.lease
	}
	if err := holding(&o.session, take, lease); err != nil {
		return err
	}
	if cmd.Flags().Lookup("skip-to") == nil {
		return nil
	}
	given := 0
	for _, name := range []string{"cursor", "file", "server-cursor", "from", "skip-to"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			given++
		}
	}
	switch {
	case given != 1 && cmd.Flags().Lookup("cursor") != nil:
		return errors.New("give one of --cursor, --file, --server-cursor, --from and --skip-to: there is no default")
	case given != 1:
		return errors.New("give either --from or --skip-to: there is no default")
	case cmd.Flags().Changed("cursor") && o.fence == 0:
		return errors.New("--cursor needs --fence: take the session, raise the fence in the consumer's store, and read the number there in the same statement")
	case o.fence != 0 && !cmd.Flags().Changed("cursor"):
		return errors.New("--fence needs --cursor")
	case cmd.Flags().Changed("from") && o.from == 0, cmd.Flags().Changed("skip-to") && o.skip == 0:
		return errors.New("numbers of entries begin with 1")
	}
	return nil
}

func (a *app) takeSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "take STREAM NAME",
		Short: "Take a session, so that its present holder can't commit any more",
		Long: `Take opens a session that exists and prints its fence. The present holder can't commit any more; if it is a once consume, it waits until the session is
released or the lease has expired. Send the fence with further calls of the HTTP API. The first consumer of a name creates the session: once consume, or an
open by the HTTP API.`,
		Example: `  once session take work a
  once session take work a --take free --holder nightly --lease 10m --json`,
	}
	o := a.operation(cmd, func(ctx context.Context, c *client.Client, o *operating) error {
		s, err := o.open(ctx, c)
		if err != nil {
			return heldError(err)
		}
		s.Close()
		opened := s.Opened()
		if o.asJSON {
			return printJSON(a.out, opened)
		}
		return lines(a.out, "fence", fmt.Sprint(opened.Fence), "life", fmt.Sprint(opened.Life), "cursor", fmt.Sprint(opened.Cursor),
			"dead", deadOf(opened.Dead), "lease until", stamp(&opened.LeaseUntil))
	})
	holderFlags(cmd, &o.session.Holder, &o.take, &o.lease, client.TakeNow)
	return cmd
}

// heldError adds the exit code of a session that another consumer holds.
func heldError(err error) error {
	if errors.Is(err, client.Held) {
		return &exitError{exitAway, err}
	}
	return err
}

func (a *app) releaseSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release STREAM NAME",
		Short: "Release a session, so that the next consumer need not wait for the lease",
		Long: `Release ends the lease of a session. With --fence it does so only if no other consumer has opened the session since; without, it takes the session from its
holder first.`,
		Example: `  once session release work a
  once session release work a --fence 1767323045123`,
	}
	o := a.operation(cmd, func(ctx context.Context, c *client.Client, o *operating) error {
		s := c.HeldSession(o.session, o.fence)
		if o.fence == 0 {
			var err error
			if s, err = o.open(ctx, c); err != nil {
				return err
			}
		}
		if err := s.Release(ctx); err != nil {
			return err
		}
		return a.done(o, "released", s.Opened().Fence, nil)
	})
	cmd.Flags().Uint64Var(&o.fence, "fence", 0, "fence of the open that is released; default the session is taken first")
	return cmd
}

// done prints the result of a command.
func (a *app) done(o *operating, what string, fence uint64, cursor *uint64) error {
	if o.asJSON {
		return printJSON(a.out, struct {
			Stream  string  `json:"stream"`
			Group   string  `json:"group,omitempty"`
			Session string  `json:"session"`
			Done    string  `json:"done"`
			Fence   uint64  `json:"fence"`
			Cursor  *uint64 `json:"cursor,omitempty"`
		}{o.session.Stream, o.session.Group, o.session.Name, what, fence, cursor})
	}
	text := fmt.Sprintf("session %s of %s is %s", safe(o.session.Name), o.session.Stream, what)
	switch {
	case cursor != nil && o.skip > 0:
		text += fmt.Sprintf("; its entries up to %d that were not reported as processed are dead letters", *cursor)
	case cursor != nil:
		text += fmt.Sprintf("; its entries up to %d are processed", *cursor)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

const numberLong = `
If the consumer's store was lost, there is no default. --from NUMBER is the first entry that is processed from now on: one that was reported as processed, or the
next one, so entries may be processed again. --skip-to NUMBER is the last entry that is skipped: nobody knows whether the entries after the last reported one,
up to this one, were processed, and they are not processed any more. Skipped entries become dead letters with the reason skipped.`

func (a *app) retireSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retire STREAM NAME --cursor NUMBER --fence FENCE | --file FILE | --server-cursor | --from NUMBER | --skip-to NUMBER",
		Short: "Close a session for good; its unread entries go to the other sessions",
		Long: `Retire takes a session from its holder and closes it: its entries after a number go back to the pool. The number must be what the consumer's store says after
the holder was fenced there:

  --file FILE       the store is the file of once consume --file; it is locked and read
  --cursor NUMBER   the number in a database: first once session take, then one statement that raises the fence in the store and returns the number
  --server-cursor   the consumer has no store of its own, as once consume --exec without --own-cursor
` + numberLong + `

Retire asks first; --yes does not ask, and is needed without a terminal. It can be repeated until it succeeds.`,
		Example: `  once session retire work a --file out.jsonl
  once session retire work b --server-cursor --yes
  once session retire work c --fence 1767323045123 --cursor 345
  once session retire work d --from 1                          # its store is lost: process everything again`,
	}
	o := a.operation(cmd, a.retire)
	f := cmd.Flags()
	f.Uint64Var(&o.cursor, "cursor", 0, "number in the consumer's store, read after its fence was raised; needs --fence")
	f.Uint64Var(&o.fence, "fence", 0, "fence to which the consumer's store was raised, of once session take")
	f.StringVar(&o.file, "file", "", "file of once consume --file")
	f.BoolVar(&o.server, "server-cursor", false, "the consumer has no store: use the cursor of the server")
	numberFlags(cmd, o)
	return cmd
}

func numberFlags(cmd *cobra.Command, o *operating) {
	f := cmd.Flags()
	f.Uint64Var(&o.from, "from", 0, "the store is lost: the first entry that is processed, perhaps again")
	f.Uint64Var(&o.skip, "skip-to", 0, "the store is lost: the last entry that is skipped")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

func (a *app) fromSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "from STREAM NAME --from NUMBER | --skip-to NUMBER",
		Short: "Decide where a session continues whose store was lost",
		Long: `From takes a session from its holder, sets its cursor, and releases it: the next consumer continues there. With --from, a consumer with a store of its own
also needs the number before in its store: once consume --file takes --from. With --skip-to it needs nothing: it passes the skipped entries.
` + numberLong + ` A consumer
that stopped at an entry that it can't process continues after it with --skip-to and the number of the entry.

From asks first; --yes does not ask, and is needed without a terminal.`,
		Example: `  once session from work a --from 1                            # process everything again that is kept
  once session from work a --skip-to 399                       # entry 399 can't be processed`,
	}
	o := a.operation(cmd, a.moveSession)
	numberFlags(cmd, o)
	return cmd
}

// retire closes a session.
func (a *app) retire(ctx context.Context, c *client.Client, o *operating) error {
	if err := a.agreed(o, "retire session %s of %s for good? Its unread entries go to other sessions.", "the session was not retired"); err != nil {
		return err
	}
	if o.fence != 0 {
		s := c.HeldSession(o.session, o.fence)
		if err := s.Retire(ctx, &o.cursor); err != nil {
			return err
		}
		return a.done(o, "retired", o.fence, &o.cursor)
	}
	info, err := o.known(ctx, c)
	if err != nil {
		return err
	}
	if info.Retired { // perhaps by a call that did not come to its end
		if err := c.HeldSession(o.session, info.Fence).Retire(ctx, &info.Cursor); err != nil {
			return err
		}
		o.skip = 0
		return a.done(o, "retired", info.Fence, &info.Cursor)
	}
	s, err := c.OpenSession(ctx, o.session)
	if err != nil {
		return err
	}
	defer s.Close()
	number, err := o.retireOpened(ctx, s)
	if err != nil {
		if failed := s.Release(ctx); !errors.Is(failed, client.Retired) { // it may be retired
			err = errors.Join(err, failed)
		}
		return err
	}
	return a.done(o, "retired", s.Opened().Fence, &number)
}

// moveSession sets the cursor of a session, and releases it.
func (a *app) moveSession(ctx context.Context, c *client.Client, o *operating) error {
	if err := a.agreed(o, "change where session %s of %s continues?", "nothing was changed"); err != nil {
		return err
	}
	s, err := o.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	number := o.skip
	if o.skip > 0 {
		err = o.skipEntries(ctx, s)
	} else if number, err = o.before(s); err == nil && number != s.Cursor() {
		err = s.Commit(ctx, number, client.CommitOptions{})
	}
	if err := errors.Join(err, s.Release(ctx)); err != nil {
		return err
	}
	return a.done(o, "released", s.Opened().Fence, &number)
}

// agreed asks, unless --yes was given.
func (a *app) agreed(o *operating, question, no string) error {
	if o.yes {
		return nil
	}
	_, err := a.ask(fmt.Sprintf(question, safe(o.session.Name), o.session.Stream), no)
	return err
}
