package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"unicode/utf8"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

func (a *app) sendOne(ctx context.Context, c sender, args []string, o *sending) error {
	body, err := a.body(args)
	if err != nil {
		return err
	}
	if len(body) == 0 && len(args) == 1 {
		return &exitError{exitUsage, errors.New("read body: there is none: give BODY, or '' for an empty one")}
	}
	m := o.message
	m.Body = body
	if m.ContentType == "" {
		m.ContentType = contentType(body)
	}
	receipt, err := c.Send(ctx, m)
	if o.stack.Name == "" {
		err = o.unsent(err)
	}
	if err != nil {
		if m.Key == "" {
			err = repeatable(err)
		}
		return err
	}
	if err := a.printReceipt(receipt, o.json); err != nil {
		return err
	}
	if receipt.Status == "accepted" && m.Wait > 0 {
		_, _ = fmt.Fprintf(a.err, "not done within %s; to see what it waits for: %s\n", m.Wait, o.lookUp(receipt))
	}
	return nil
}

// lookUp returns the command that shows what became of a message. For a numbered message it shows
// the group, because nothing else is left of one that is done.
func (o *sending) lookUp(r client.Receipt) string {
	text := "once show "
	if o.message.Source != "" {
		text += quoted(r.Stream + "/" + r.Group)
	} else {
		text += quoted(r.Stream) + " --id " + quoted(r.ID)
	}
	if o.stack.Name != "" {
		text += " --stack " + quoted(o.stack.Name)
	}
	return text
}

// body returns the argument, or the content of standard input.
func (a *app) body(args []string) ([]byte, error) {
	if last := args[len(args)-1]; len(args) > 1 && last != "-" {
		return []byte(last), nil
	}
	if a.typed {
		_, _ = fmt.Fprintln(a.err, "reading the body from the terminal; end it with ctrl-D")
	}
	body, err := io.ReadAll(io.LimitReader(a.in, record.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if len(body) > record.MaxBody {
		return nil, &exitError{exitUsage, fmt.Errorf("read body: must be at most %d bytes", record.MaxBody)}
	}
	return body, nil
}

func contentType(body []byte) string {
	switch {
	case len(body) == 0:
		return ""
	case json.Valid(body):
		return "application/json"
	case utf8.Valid(body):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// unsent returns an error that says how to start the server, if nothing listens at the address, or
// how to trust it, if its certificate can't be verified.
func (o *sending) unsent(err error) error {
	if open, ok := errors.AsType[*client.UnacknowledgedError](err); !ok || !open.Unsent {
		return err
	}
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &exitError{exitAway, fmt.Errorf("the certificate of %s can't be verified: if its authority is not known here, name the authority's certificate with --ca-file: %w", o.url, unverified)}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	start := "once dev"
	switch u, bad := url.Parse(o.url); {
	case bad != nil || o.url == defaultURL:
	case u.Scheme == "http" && config.Loopback(u.Host):
		start += " --listen " + u.Host
	default:
		start = "once serve"
	}
	return &exitError{exitAway, fmt.Errorf("nothing listens on %s; start it with: %s", o.url, start)}
}

// repeatable adds the generated key to the error if the message may have been accepted: without the
// key, the same command would send another message.
func repeatable(err error) error {
	var open *client.UnacknowledgedError
	var p *client.Problem
	key := ""
	switch {
	case errors.As(err, &open) && open.Unsent:
		return err
	case errors.As(err, &open):
		key = open.Key
	case errors.As(err, &p) && p.Ambiguous:
		key = p.Key
	}
	if key == "" {
		return err // refused, not sent, or identified by its number
	}
	return fmt.Errorf("%w\nit may have been accepted; to retry without sending a second message, repeat the command with --key %s", err, key)
}

// receipted is the JSON output of send for one message.
type receipted struct {
	client.Receipt
	Reply *admin.ReplyInfo `json:"reply,omitempty"`
}

func (a *app) printReceipt(r client.Receipt, asJSON bool) error {
	out := receipted{Receipt: r}
	if r.Reply != nil {
		out.Reply = &admin.ReplyInfo{Status: r.Reply.Status, Header: r.Reply.Header}
		out.Reply.SetBody(r.Reply.Body)
	}
	if asJSON {
		return printJSON(a.out, out)
	}
	text := r.Status + " " + r.ID
	if r.Group != "" && r.Group != r.ID {
		text += " in " + r.Stream + "/" + r.Group
	} else {
		text += " in " + r.Stream
	}
	if !r.NotBefore.IsZero() {
		text += ", due at " + stamp(&r.NotBefore)
	}
	if r.Replayed {
		text += " (the server had it before)"
	}
	if _, err := fmt.Fprintln(a.out, text); err != nil || r.Reply == nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "reply %d %s\n", r.Reply.Status, bytes.TrimRight(r.Reply.Body, "\n"))
	return err
}
