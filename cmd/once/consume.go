package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
)

const (
	// defaultBatch is how many entries consume reads and commits at a time.
	defaultBatch = 1000
	// defaultSilence is how long a command may acknowledge nothing while it has entries.
	defaultSilence = 5 * time.Minute
)

// consuming holds the arguments of consume.
type consuming struct {
	session    client.SessionOptions
	take       string
	lease      string
	file, exec string
	from       uint64
	ownCursor  bool
	inFlight   int
	silence    string
	json       bool
	sending    // the server

	silent time.Duration
}

const consumeLong = `Consume processes the entries of a session, each once: it appends them to a file, or passes them to a command. It ends with exit code 0 after the
end of the stream. It survives a lost connection and a restart of the server. If no server listens when it starts, it exits with 4; --wait-for-server waits.

A session is a named reader of the stream's pool, which deals each entry to one session; with --group it reads the log of that group. One consumer
holds a session at a time. While another one holds it, consume waits until it is released or its lease has expired (30 s after a crash, --lease).
--take mine does not wait for an earlier consumer with the same holder: one that had the same --holder, or --take mine too, on the same host, without --holder.
Without both, a holder has a random name, which --take mine waits for. --take now waits for none. A consumer that was replaced can't commit any more.
Two consumers that run at the same time must not have the same --holder: they would take the session from each other.

--file FILE appends a line of JSON for each entry, which ends with the entry's number; the first line names the session. The lines of a batch are on disk
before the batch is committed, and the last whole line is the cursor: after a kill at any moment, the file has each entry once. The file is locked while it is
open. If it was lost, consume stops and asks for --from NUMBER: the first entry of a new file.

--exec COMMAND runs a command in a shell and gives it each entry as a line of JSON on its standard input. The command prints a line on its standard output
when it has processed entries:

  346               the entries up to number 346 are processed
  fail 347 no stock entry 347 was not processed, and why; the entries before it were

The command gets the next entry when it has acknowledged the one before. With --in-flight N it has up to N entries that it has not acknowledged, for speed; it
then must not process the entries after one that failed. An entry that failed is tried again, by a new start of the command. So is the first entry that is not
acknowledged if the command ends, or if it acknowledges nothing for --ack-timeout. After the stream's number of tries the entry becomes a dead letter, or
consume stops with exit code 1, as configured. Other text belongs on standard error. At the end of its standard input the command should end. ONCE_STREAM,
ONCE_SESSION, ONCE_LIFE and ONCE_FENCE are in its environment. After a crash a command gets the entries again that it had not acknowledged: the field identity
of an entry is the same then.

With --own-cursor the command keeps its number in its own store, in the transaction of its work, and so processes each entry once. At its start it raises the
fence in its store to ONCE_FENCE, and prints the number that it has read there in the same statement; the entries after that number follow.

On SIGINT or SIGTERM, consume lets the command finish the entries that it has for up to 10 s, commits what is acknowledged, releases the session, and exits
with 5.

The server is --url, else $ONCE_URL, else ` + defaultURL + `. $ONCE_API_KEY is the key for it.`

func (a *app) consume() *cobra.Command {
	var o consuming
	cmd := &cobra.Command{
		Use:   "consume STREAM --session NAME --file FILE | --exec COMMAND",
		Short: "Process the entries of a session: append them to a file, or give them to a command",
		Long:  consumeLong,
		Example: `  once consume work --session a --file out.jsonl                # each entry is one line
  once consume work --session b --exec ./worker --take mine     # always so: after a crash, the next one need not wait for the lease
  once consume chat --group lobby --session archive --file lobby.jsonl
  once consume work --session c --exec 'jq --unbuffered .number'  # acknowledges everything
  once consume work --session a --file out.jsonl --stack Once --region eu-west-1`,
		Args:              arguments(oneStream),
		ValidArgsFunction: completeStreams,
	}
	f := cmd.Flags()
	f.StringVar(&o.session.Name, "session", "", "name of the session; required")
	f.StringVar(&o.session.Group, "group", "", "read the log of this group, not the stream's pool")
	f.StringVar(&o.file, "file", "", "append the entries to this file")
	f.StringVar(&o.exec, "exec", "", "give the entries to this command line of a shell")
	holderFlags(cmd, &o.session.Holder, &o.take, &o.lease, client.TakeFree)
	f.IntVar(&o.session.Max, "max", defaultBatch, "largest number of entries that are read at a time, at most 10000")
	f.Uint64Var(&o.from, "from", 0, "number of the first entry if the file or the store was lost; entries before it are not repeated, those after it may be")
	f.IntVar(&o.inFlight, "in-flight", 1, "number of entries that a command may have and not have acknowledged")
	f.StringVar(&o.silence, "ack-timeout", "5m", "how long a command may acknowledge nothing while it has entries; 0s is for ever")
	f.BoolVar(&o.ownCursor, "own-cursor", false, "the command keeps its number in its own store")
	f.StringVar(&o.url, "url", "", "server; default $ONCE_URL or "+defaultURL)
	authorityFlag(cmd, &o.caFile)
	f.BoolVar(&o.await, "wait-for-server", false, "wait at the start if nothing listens at the server's address")
	o.stack = stackFlags(cmd)
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	a.completeSessionFlag(cmd, "session")
	_ = cmd.MarkFlagFilename("file", "jsonl", "ndjson", "json") // fails only for an unknown flag
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.session.Stream = args[0]
		if err := o.prepare(cmd); err != nil {
			return usageError(cmd, err)
		}
		c, err := a.consumer(cmd, &o.sending, o.session.Holder)
		if err != nil {
			return err
		}
		return a.consumeWith(cmd.Context(), c, &o)
	}
	return cmd
}

// oneStream returns an error if the arguments are not one stream.
func oneStream(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a stream: %s STREAM", cmd.CommandPath())
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

// holderFlags adds the flags of an open.
func holderFlags(cmd *cobra.Command, holder, take, lease *string, otherwise client.Take) {
	f := cmd.Flags()
	f.StringVar(holder, "holder", "", "name of this consumer; default a new one with the name of the host, and with --take mine the name of the host alone")
	f.StringVar(take, "take", string(otherwise), "take the session if it is free, if the holder is this one (mine), or always (now)")
	f.StringVar(lease, "lease", "30s", "how long others wait for this consumer after a crash")
}

// prepare checks the arguments.
func (o *consuming) prepare(cmd *cobra.Command) (err error) {
	f := cmd.Flags()
	switch {
	case o.session.Name == "":
		return errors.New("name the session with --session")
	case (o.file == "") == (o.exec == ""):
		return errors.New("give either --file or --exec")
	case o.exec == "" && (o.ownCursor || f.Changed("ack-timeout") || f.Changed("in-flight")):
		return errors.New("--own-cursor, --ack-timeout and --in-flight need --exec")
	case o.inFlight < 1:
		return errors.New("--in-flight must be at least 1")
	case o.exec != "" && f.Changed("from"):
		return errors.New("--from needs --file; for a command: once session from")
	case f.Changed("from") && o.from == 0:
		return errors.New("--from must be at least 1")
	case o.session.Max < 1 || o.session.Max > 10000:
		return errors.New("--max must be between 1 and 10000")
	}
	if o.silent, err = optional("--ack-timeout", o.silence, defaultSilence); err != nil {
		return err
	}
	if err := holding(&o.session, o.take, o.lease); err != nil {
		return err
	}
	return errors.Join(record.ValidStream(o.session.Stream), o.stack.check(cmd, "ca-file"))
}

// holding sets the options of an open from the flags.
func holding(s *client.SessionOptions, take, lease string) (err error) {
	switch s.Take = client.Take(take); s.Take {
	case client.TakeFree, client.TakeMine, client.TakeNow:
	default:
		return fmt.Errorf("--take %q must be free, mine or now", take)
	}
	if s.Lease, err = optional("--lease", lease, 0); err != nil {
		return err
	}
	if s.Lease < time.Second {
		return errors.New("--lease must be at least 1s")
	}
	if s.Holder == "" {
		s.Holder, err = defaultHolder(s.Take)
	}
	return err
}

// defaultHolder returns a name that no other process has: two consumers with one name would take
// the session from each other. With mine, an earlier process of this host has had the same name.
func defaultHolder(take client.Take) (string, error) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "", errors.New("name the consumer with --holder: the host has no name")
	}
	host = host[:min(len(host), 64)]
	if take == client.TakeMine {
		return host, nil
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6])), nil
}

// consumer returns a client of the server for a holder. It retries until its context ends. If
// nothing listens at the address, it returns an error, unless o.await is set.
func (a *app) consumer(cmd *cobra.Command, o *sending, holder string) (*client.Client, error) {
	notice := &notice{app: a, text: "trying again in", self: holder}
	s, err := a.sender(cmd, o, client.Options{OnRetry: notice.retry})
	if err != nil {
		return nil, err
	}
	if x, ok := s.(signed); ok {
		s = x.sender
	}
	c := s.(*client.Client)
	if o.await {
		return c, nil
	}
	// A consumer waits until a server is there. At the beginning its address is more likely wrong.
	if err := o.reachable(cmd.Context(), c); err != nil {
		return nil, err
	}
	return c, nil
}

// A consumed is the result of consume.
type consumed struct {
	Stream  string `json:"stream"`
	Group   string `json:"group,omitempty"`
	Session string `json:"session"`
	Entries int    `json:"entries"`
	Number  uint64 `json:"number"`
	Ended   bool   `json:"ended"`

	released string // the end of the text for a person: released or not
	bar      *progressbar.ProgressBar
}

// watch has the consumer of a session report its progress.
func (a *app) watch(s *client.SessionOptions, c *consumed) {
	s.OnCommit = func(entries int, number uint64) {
		c.Entries, c.Number = c.Entries+entries, number
		_ = c.bar.Add(entries) // a closed terminal shows no progress
	}
	s.OnDeadLetter = func(e *client.Entry, tries uint64, err error) {
		_, _ = fmt.Fprintf(a.err, "entry %d (%s) is a dead letter after %d tries: %s\n", e.Number, safe(e.ID), tries, safe(err.Error()))
	}
	s.OnRelease = func(err error) {
		c.released = "the session is released, and "
		if err != nil {
			c.released = fmt.Sprintf("the session is not released: others wait until its lease of %s expires; ", s.Lease)
		}
	}
}

func (a *app) consumeWith(ctx context.Context, c *client.Client, o *consuming) error {
	result := &consumed{Stream: o.session.Stream, Group: o.session.Group, Session: o.session.Name, bar: a.progress(-1, "consuming", "entries")}
	a.watch(&o.session, result)
	var err error
	if o.file != "" {
		err = a.consumeToFile(ctx, c, o)
	} else {
		err = a.consumeByCommand(ctx, c, o)
	}
	_ = result.bar.Exit()
	result.Ended = err == nil
	return errors.Join(a.printConsumed(result, o.json), o.ended(ctx, result, err))
}

func (a *app) printConsumed(r *consumed, asJSON bool) error {
	if asJSON {
		return printJSON(a.out, r)
	}
	text := fmt.Sprintf("%d processed, the last one has number %d", r.Entries, r.Number)
	if r.Entries == 0 {
		text = "nothing was processed"
	}
	if r.Ended {
		text += "; the stream has ended"
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// ended returns the error of the command for the one that ended the consumer.
func (o *consuming) ended(ctx context.Context, r *consumed, err error) error {
	stopped, isStopped := errors.AsType[*client.StoppedError](err)
	expired, isExpired := errors.AsType[*client.ExpiredError](err)
	lost, isLost := errors.AsType[*client.LostCursorError](err)
	_, skips := errors.AsType[*client.SkipError](err)
	name := fmt.Sprintf("%s %s%s", o.session.Stream, quoted(o.session.Name), ofGroup(o.session.Group))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &exitError{exitIncomplete, fmt.Errorf("interrupted; %sthe same command continues", r.released)}
	case isStopped:
		return fmt.Errorf("%w\nto try it again, run the same command; to leave it out: once session from %s --skip-to %d", err, name, stopped.Number)
	case isExpired && expired.First > 1:
		return fmt.Errorf("%w\nto continue with what is kept: once session from %s --skip-to %d", err, name, expired.First-1)
	case isExpired:
		return fmt.Errorf("%w\nto begin again with what is kept: once session retire %s --server-cursor", err, name)
	case isLost && o.file != "":
		return &exitError{exitUsage, fmt.Errorf("%s has no entries of session %s, which has processed %d: if FILE is the wrong path, name the right one; "+
			"if the file is lost, name the first entry of a new one with --from", safe(o.file), quoted(o.session.Name), lost.Cursor)}
	case isLost:
		return &exitError{exitFailed, fmt.Errorf("the command's store has no number of session %s, which has processed %d entries: if the command uses the wrong store, give it the right one; "+
			"if the store is lost: once session from %s --from NUMBER, or --skip-to NUMBER", quoted(o.session.Name), lost.Cursor, name)}
	case skips:
		return &exitError{exitUsage, fmt.Errorf("%w\nto leave them out: once session from %s --skip-to NUMBER", err, name)}
	}
	return err
}

func ofGroup(group string) string {
	if group == "" {
		return ""
	}
	return " --group " + quoted(group)
}
