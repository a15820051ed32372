package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/destination/link"
	"github.com/effectively-once/once/internal/destination/stream"
	"github.com/effectively-once/once/internal/destination/webhook"
	"github.com/effectively-once/once/internal/record"
)

// senders opens the configured destinations.
func (p *Pipeline) senders() (map[string]record.Sender, error) {
	senders := map[string]record.Sender{}
	var errs []error
	for _, name := range p.cfg.Config.DestinationNames() {
		d := p.cfg.Config.Destinations[name]
		if kept := p.kept(name, d); kept != nil {
			senders[name], p.patient[name] = kept, kept
			continue
		}
		sender, err := p.cfg.Open(name, d, func() (record.Sender, error) { return p.open(name, d) })
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("open destination %s: %w", name, err))
		case sender != nil:
			senders[name] = p.byPolicy(name, d, p.cfg.Watch.Sender(name, string(d.Kind()), sender))
		}
	}
	return senders, errors.Join(errs...)
}

func (p *Pipeline) open(name string, d config.Destination) (record.Sender, error) {
	switch d.Kind() {
	case config.KindWebhook:
		return p.openWebhook(d)
	case config.KindOnce:
		return p.openLink(name, d)
	case config.KindStream:
		i := slices.IndexFunc(p.streams, func(s record.Stream) bool { return s.Name == d.Target() })
		if i < 0 {
			return nil, fmt.Errorf("no stream is named %q", d.Target())
		}
		return stream.New(p.streams[i], feed{p.Queues}, issuer{p})
	default:
		return nil, fmt.Errorf("%s %s belongs to the system around the pipeline", d.Kind(), d.Target())
	}
}

func (p *Pipeline) openWebhook(d config.Destination) (record.Sender, error) {
	options := webhook.Options{Now: p.cfg.Now, Transport: p.cfg.Transport}
	if d.Secret != "" {
		options.Secret = p.cfg.Secret(d.Secret.Place())
	}
	if d.Secret.Local() {
		secret, err := options.Secret()
		if err != nil {
			return nil, err
		}
		if err := webhook.ValidSecret(secret); err != nil {
			return nil, err
		}
	}
	return webhook.New(d.Target(), options)
}

// linkConnections is how many connections to another system are kept, and requests in flight.
const linkConnections = 16

func (p *Pipeline) openLink(name string, d config.Destination) (record.Sender, error) {
	c := link.Config{
		System: p.cfg.Config.Name, Destination: name, URL: d.Once, Stream: d.Stream, Group: d.Group, Header: d.Header,
		Concurrency: linkConnections, Transport: p.cfg.Transport, Now: p.cfg.Now,
	}
	switch key := d.Key(); {
	case d.Auth == config.AuthIAM && p.cfg.Sign == nil:
		return nil, errors.New("auth: iam works in once dev and on AWS only")
	case d.Auth == config.AuthIAM:
		if c.Transport == nil {
			c.Transport = link.NewTransport(linkConnections)
		}
		var err error
		if c.Transport, err = p.cfg.Sign(d.Once, c.Transport); err != nil {
			return nil, fmt.Errorf("sign requests: %w", err)
		}
	case key != "":
		c.Key = p.cfg.Secret(key.Place())
		if !key.Local() {
			break
		}
		if _, err := c.Key(); err != nil {
			return nil, err
		}
	}
	return link.New(c)
}

// An issuer issues tokens with the engine, which is made after the destinations.
type issuer struct{ *Pipeline }

func (i issuer) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	return i.Engine.Issue(ctx, m)
}
