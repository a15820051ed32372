package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/config"
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
		sender, err := p.cfg.Open(name, d, func() (record.Sender, error) { return p.open(d) })
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("open destination %s: %w", name, err))
		case sender != nil:
			senders[name] = p.byPolicy(name, d, p.cfg.Watch.Sender(name, string(d.Kind()), sender))
		}
	}
	return senders, errors.Join(errs...)
}

func (p *Pipeline) open(d config.Destination) (record.Sender, error) {
	switch d.Kind() {
	case config.KindWebhook:
		return p.openWebhook(d)
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
	options := webhook.Options{Now: p.cfg.Now}
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

// An issuer issues tokens with the engine, which is made after the destinations.
type issuer struct{ *Pipeline }

func (i issuer) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	return i.Engine.Issue(ctx, m)
}
