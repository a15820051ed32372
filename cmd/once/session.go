package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/filecursor"
)

// skipWait is how long a skip waits for the entries that it skips.
const skipWait = 10 * time.Second

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
		Long: `Take opens a session and prints its fence. The present holder can't commit any more; if it is a once consume, it waits until the session is released or
the lease has expired. A consumer in a script opens its session so, and gives the fence to its further calls of the HTTP API.`,
		Example: `  once session take work a
  once session take work a --take free --holder nightly --lease 10m --json`,
	}
	o := a.operation(cmd, func(ctx context.Context, c *client.Client, o *operating) error {
		s, err := c.OpenSession(ctx, o.session)
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
			if s, err = c.OpenSession(ctx, o.session); err != nil {
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
	if o.asJSON && o.skip == 0 {
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
	if cursor != nil {
		text += fmt.Sprintf("; its entries up to %d are processed", *cursor)
	}
	if o.skip > 0 {
		return a.note(text + "\n") // the output is the entries
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

const numberLong = `
If the consumer's store was lost, there is no default: --from NUMBER continues with an entry that was reported as processed, or with the next one, so entries may
be processed again. --skip-to NUMBER leaves out the entries before it that were not reported: they are printed as JSON lines, one each, and are not
processed by the session.`

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
	f.Uint64Var(&o.skip, "skip-to", 0, "the store is lost: the first entry that is not skipped")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

func (a *app) fromSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "from STREAM NAME --from NUMBER | --skip-to NUMBER",
		Short: "Decide where a session continues whose store was lost",
		Long: `From takes a session from its holder, sets its cursor, and releases it: the next consumer continues there. A consumer with a store of its own also needs
the number before in its store: once consume --file takes --from.
` + numberLong + `

From asks first; --yes does not ask, and is needed without a terminal.`,
		Example: `  once session from work a --from 1                            # process everything again that is kept
  once session from work a --skip-to 400 --yes > skipped.jsonl`,
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
	s, err := c.OpenSession(ctx, o.session)
	if err != nil {
		return err
	}
	defer s.Close()
	number, unlock, err := a.number(ctx, s, o)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.Retire(ctx, &number); err != nil {
		return err
	}
	return a.done(o, "retired", s.Opened().Fence, &number)
}

// moveSession sets the cursor of a session, and releases it.
func (a *app) moveSession(ctx context.Context, c *client.Client, o *operating) error {
	if err := a.agreed(o, "change where session %s of %s continues?", "nothing was changed"); err != nil {
		return err
	}
	s, err := c.OpenSession(ctx, o.session)
	if err != nil {
		return err
	}
	defer s.Close()
	number, unlock, err := a.number(ctx, s, o)
	if err != nil {
		return errors.Join(err, s.Release(ctx))
	}
	defer unlock()
	if number != s.Cursor() {
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

// number returns the last number that counts as processed of a session that was taken. The
// caller then unlocks the consumer's file.
func (a *app) number(ctx context.Context, s *client.Session, o *operating) (number uint64, unlock func(), err error) {
	unlock = func() {}
	switch {
	case o.server:
		return s.Cursor(), unlock, nil
	case o.from > 0 && o.from-1 > s.Cursor():
		return 0, unlock, &exitError{exitUsage, fmt.Errorf("entries up to %d were reported as processed: --from %d would skip entries, which --skip-to does", s.Cursor(), o.from)}
	case o.from > 0:
		return o.from - 1, unlock, nil
	case o.skip > 0:
		return o.skip - 1, unlock, a.skipEntries(ctx, s, o.skip-1)
	}
	f, err := filecursor.Open(ctx, o.file, s.Opened(), filecursor.Options{})
	if err != nil {
		return 0, unlock, err
	}
	return f.Number(), func() { _ = f.Close() }, nil // it was only read
}

// skipEntries prints the entries after the cursor up to a number, and moves the cursor past them.
func (a *app) skipEntries(ctx context.Context, s *client.Session, last uint64) error {
	if last < s.Cursor() {
		return &exitError{exitUsage, fmt.Errorf("entries up to %d were reported as processed: --skip-to %d would repeat entries, which --from does", s.Cursor(), last+1)}
	}
	if err := s.Continue(ctx, s.Cursor()); err != nil {
		return err
	}
	for s.Cursor() < last {
		waiting, cancel := context.WithTimeout(ctx, skipWait)
		b, err := s.Next(waiting)
		cancel()
		if expired, ok := errors.AsType[*client.ExpiredError](err); ok && expired.First > s.Cursor()+1 {
			err = s.Commit(ctx, min(last, expired.First-1), client.CommitOptions{})
			if err == nil {
				err = s.Continue(ctx, s.Cursor())
			}
			b = client.Batch{To: s.Cursor()}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
			return &exitError{exitRefused, fmt.Errorf("the session has no entries after %d: skip to at most %d", s.Cursor(), s.Cursor()+1)}
		}
		if err != nil {
			return err
		}
		for i := range b.Entries {
			if b.Entries[i].Number <= last {
				if _, err := io.WriteString(a.out, oneLine(newTailLine(&b.Entries[i]))); err != nil {
					return fmt.Errorf("print entry: %w", err)
				}
			}
		}
		if to := min(b.To, last); to > s.Cursor() {
			if err := s.Commit(ctx, to, client.CommitOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}
