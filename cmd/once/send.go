package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
)

const maxConcurrency = 100

// sending holds the arguments of send.
type sending struct {
	message     client.Message
	headers     []string
	file        string
	url         string
	stack       *stackOptions
	operator    *remoteOptions // for commands of operators
	caFile      string         // for the others
	queue       string
	delay       string
	notBefore   string
	concurrency int
	wait        string
	retryFor    string
	await       bool
	json        bool
}

const sendLong = `Send sends one message, or a file of messages, and retries each under the same key until the server acknowledges it.

BODY is the body itself; - or no BODY reads it from standard input. A body that is JSON is sent as application/json, other text as text/plain.
Without --key a new key is made: retries count once, but running the command again sends a second message.
If it may have been accepted without an acknowledgement (exit code 4), the new key is printed on standard error: repeat the command with it.

--file sends one message a line: {"key"?, "group"?, "source"?, "epoch"?, "sequence"?, "depends_on"?, "parents"?, "time"?, "end"?, "delay"?, "not_before"?, "headers"?, "content_type"?, "body"}.
The body is any JSON value; with a content_type that is not JSON it is text in a JSON string, or base64 in "body_base64". Blank lines are skipped.
Up to 100 messages are sent in one request. Messages of one group, or of one source, are sent in the order of the file; all others concurrently.
A server of an older version, which takes no batches, gets them one by one.
A line without a key and a source gets a key made of the content of the whole file and the line's number. So sending the same file again repeats the same
messages, and a changed file has new ones. The whole file is checked before the first message is sent.
--file - reads standard input and sends while it reads; lines without a key get new keys there, so a second run sends them a second time.

Retries of a single message end after 1m, those of a file never; --retry-for changes both. If nothing listens at the address, or the
certificate there can't be verified, a single message fails immediately (exit code 4), unless --wait-for-server or --retry-for is given. The server is --url, else $ONCE_URL, else ` + defaultURL + `. $ONCE_API_KEY is the key for it.

With --stack the server is the API of a deployed system, at its output ApiUrl or at --url, and requests are signed for IAM authorization. With --queue
messages are sent to an ingress queue directly: fifo keeps the order of each group; standard suits numbered messages, because their numbers keep the order.
A queue acknowledges duplicates too, and the functions drop them. A message by SQS never has the identity of one by the API.`

func (a *app) send() *cobra.Command {
	var o sending
	cmd := &cobra.Command{
		Use:   "send STREAM [BODY|-]",
		Short: "Send a message, or a file of messages, until it is acknowledged",
		Long:  sendLong,
		Example: `  once send orders '{"item":7}' --key order-1 --group customer-7
  once send chat 'hello' --source ann --sequence 1
  once send transfers '{"cents":5}' --key t-1 --wait 10s      # wait for the handler's reply
  once send orders '{"item":7}' --key remind-1 --delay 15m    # process it in 15 minutes
  once send orders --file orders.jsonl --concurrency 64
  zcat old.jsonl.gz | once send orders --file -
  once send orders '{"item":7}' --key order-1 --stack Once --region eu-west-1
  once send orders --file orders.jsonl --stack Once --queue fifo`,
		Args:              arguments(streamAndBody),
		ValidArgsFunction: completeStreams,
	}
	f := cmd.Flags()
	f.StringVar(&o.message.Key, "key", "", "identity of the message within the stream; default a new one")
	f.StringVar(&o.message.Group, "group", "", "unit of state and order; default the source, or else the key")
	f.StringVar(&o.message.Source, "source", "", "numbered sender")
	f.Uint64Var(&o.message.Sequence, "sequence", 0, "number of the message: 1, 2, 3 ...; needs --source")
	f.Uint64Var(&o.message.Epoch, "epoch", 0, "incarnation of the source")
	f.BoolVar(&o.message.End, "end", false, "end the log of the group with this message")
	f.StringVar(&o.delay, "delay", "", "process the message after this time, such as 30s, 15m or 7d; at most 365d")
	f.StringVar(&o.notBefore, "not-before", "", "process the message at this time (RFC 3339) or later, such as 2026-01-31T12:00:00Z")
	f.StringArrayVar(&o.headers, "header", nil, "header NAME=VALUE of the message; may be repeated")
	f.StringVar(&o.message.ContentType, "content-type", "", "media type of the body; default by its content")
	f.StringVar(&o.file, "file", "", "send the messages of a file of JSON lines; - is standard input")
	f.StringVar(&o.url, "url", "", "server; default $ONCE_URL or "+defaultURL)
	authorityFlag(cmd, &o.caFile)
	o.stack = stackFlags(cmd)
	f.StringVar(&o.queue, "queue", "", "send to this ingress queue, fifo or standard, not to the API; needs --stack")
	f.IntVar(&o.concurrency, "concurrency", 16, fmt.Sprintf("number of requests of a file in flight, at most %d", maxConcurrency))
	f.StringVar(&o.wait, "wait", "", "wait this long for the handler's reply, at most 60s")
	f.BoolVar(&o.await, "wait-for-server", false, "retry while nothing listens at the server's address; --retry-for and --file do this too")
	f.StringVar(&o.retryFor, "retry-for", "", "stop retrying a message after this time; 0s is never")
	f.BoolVar(&o.json, "json", false, "print JSON")
	_ = cmd.MarkFlagFilename("file", "jsonl", "ndjson", "json") // fails only for an unknown flag
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options, err := a.prepare(cmd, args, &o)
		if err != nil {
			return usageError(cmd, err)
		}
		c, err := a.sender(cmd, &o, options)
		if err != nil {
			return err
		}
		if o.file != "" {
			return a.sendFile(cmd.Context(), c, &o)
		}
		return a.sendOne(cmd.Context(), c, args, &o)
	}
	return cmd
}

func streamAndBody(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name a stream: once send STREAM [BODY]")
	}
	return cobra.MaximumNArgs(2)(cmd, args)
}

// prepare checks the flags and returns the client's options.
func (a *app) prepare(cmd *cobra.Command, args []string, o *sending) (client.Options, error) {
	none := client.Options{}
	if err := record.ValidStream(args[0]); err != nil {
		return none, err
	}
	o.message.Stream = args[0]
	if o.concurrency < 1 || o.concurrency > maxConcurrency {
		return none, fmt.Errorf("--concurrency must be between 1 and %d", maxConcurrency)
	}
	if err := o.place(cmd); err != nil {
		return none, err
	}
	check, limit := func() error { return o.own(cmd) }, time.Minute
	if o.file != "" {
		check, limit = func() error { return onlyFile(cmd, args) }, 0
	}
	if err := check(); err != nil {
		return none, err
	}
	limit, err := optional("--retry-for", o.retryFor, limit)
	if err != nil {
		return none, err
	}
	notice := &notice{app: a}
	needServer := !o.await && o.retryFor == "" && o.file == ""
	return client.Options{MaxElapsed: limit, NeedServer: needServer, OnRetry: notice.retry}, nil
}

// place checks the flags for the receiver of messages.
func (o *sending) place(cmd *cobra.Command) error {
	if err := o.stack.check(cmd, "ca-file"); err != nil {
		return err
	}
	f := cmd.Flags()
	switch {
	case !f.Changed("queue"):
		return nil
	case o.stack.Name == "":
		return errors.New("--queue needs --stack")
	case o.queue != string(deployed.FIFO) && o.queue != string(deployed.Standard):
		return fmt.Errorf("--queue must be %s or %s", deployed.FIFO, deployed.Standard)
	case f.Changed("url"):
		return errors.New("--queue and --url exclude each other")
	case f.Changed("wait"):
		return errors.New("--queue and --wait exclude each other: a queue has no reply")
	}
	return nil
}

// authorize adds the key of a caller, which servers may ask for.
func (a *app) authorize(o *client.Options) {
	key := a.env("ONCE_API_KEY")
	if key == "" || o.Header.Get("Authorization") != "" {
		return
	}
	if o.Header == nil {
		o.Header = http.Header{}
	}
	o.Header.Set("Authorization", "Bearer "+key)
}

// sender returns the sender to that receiver.
func (a *app) sender(cmd *cobra.Command, o *sending, options client.Options) (sender, error) {
	if o.stack.Name != "" {
		return stackSender(cmd.Context(), o, options)
	}
	if err := a.asOperator(cmd, o, &options); err != nil {
		return nil, err
	}
	if o.url == "" {
		o.url = a.env("ONCE_URL")
	}
	if o.url == "" {
		o.url = defaultURL
	}
	if err := trust(o.caFile, &options); err != nil {
		return nil, err
	}
	a.authorize(&options)
	c, err := client.New(o.url, options)
	if err != nil {
		return nil, usageError(cmd, err)
	}
	return c, nil
}

// onlyFile refuses flags of a single message, because a file's lines contain their values.
func onlyFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return errors.New("--file and BODY exclude each other")
	}
	for _, name := range []string{"key", "group", "source", "sequence", "epoch", "end", "delay", "not-before", "header", "content-type", "wait"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--file and --%s exclude each other", name)
		}
	}
	return nil
}

// own completes a single message from the flags and checks it.
func (o *sending) own(cmd *cobra.Command) (err error) {
	for _, name := range []string{"key", "group", "source"} {
		// Most likely a script's variable is not set: a generated key would break the script's
		// idempotency.
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s must not be empty", name)
		}
	}
	if o.message.Wait, err = optional("--wait", o.wait, 0); err != nil {
		return err
	}
	if o.message.Wait > time.Minute {
		return errors.New("--wait must be at most 60s")
	}
	if err := o.due(); err != nil {
		return err
	}
	if o.message.Headers, err = namedValues(o.headers); err != nil {
		return err
	}
	return o.message.Validate()
}

// namedValues returns the headers of flags NAME=VALUE.
func namedValues(flags []string) (map[string]string, error) {
	if len(flags) == 0 {
		return nil, nil
	}
	headers := make(map[string]string, len(flags))
	for _, h := range flags {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, fmt.Errorf("--header %q must be NAME=VALUE", h)
		}
		headers[name] = value
	}
	return headers, nil
}

// due sets when the message is due, from the flags.
func (o *sending) due() (err error) {
	var at time.Time
	switch {
	case o.delay != "" && o.notBefore != "":
		return errors.New("--delay and --not-before exclude each other")
	case o.notBefore != "":
		if at, err = wire.ParseNotBefore(o.notBefore); err != nil {
			return fmt.Errorf("--not-before %s", wire.NotBeforeRule)
		}
	}
	if o.message.NotBefore, err = dueAt(o.delay, at); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if !o.message.NotBefore.IsZero() && o.message.Wait > 0 {
		return errors.New("--wait and a delay exclude each other: a delayed message has no reply to wait for")
	}
	return nil
}

func optional(flag, text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s %w", flag, err)
	}
	return d.Std(), nil
}

// reachable returns an error if nothing listens at the address, or if the certificate of the server
// can't be verified.
func (o *sending) reachable(ctx context.Context, c *client.Client) error {
	if o.stack.Name != "" {
		return nil
	}
	err := c.Healthy(ctx)
	if _, unverified := errors.AsType[*tls.CertificateVerificationError](err); unverified || errors.Is(err, syscall.ECONNREFUSED) {
		return o.unsent(&client.UnacknowledgedError{Unsent: true, Err: err})
	}
	return nil
}

// regular reports whether a path is a file that can be read twice.
func regular(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		return false, fmt.Errorf("%s is a folder", path)
	}
	return info.Mode().IsRegular(), nil
}
