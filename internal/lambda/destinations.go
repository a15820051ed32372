package lambda

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

// ErrDestination says that the functions can't serve a kind of destination.
var ErrDestination = errors.New("the functions have no such destination")

// openDestinations makes the configured destinations. The error names each that can't be served.
func (s *System) openDestinations(streams []record.Stream) (map[string]record.Sender, error) {
	senders := map[string]record.Sender{}
	var errs []error
	for _, name := range s.settings.Config.DestinationNames() {
		sender, err := s.openDestination(s.settings.Config.Destinations[name], streams)
		if err != nil {
			errs = append(errs, fmt.Errorf("open destination %s: %w", name, err))
		}
		senders[name] = sender
	}
	return senders, errors.Join(errs...)
}

func (s *System) openDestination(d config.Destination, streams []record.Stream) (record.Sender, error) {
	switch d.Kind() {
	case config.KindWebhook:
		return openWebhook(d)
	case config.KindStream:
		i := slices.IndexFunc(streams, func(t record.Stream) bool { return t.Name == d.Target() })
		if i < 0 {
			return nil, fmt.Errorf("no stream is named %q", d.Target())
		}
		return stream.New(streams[i], inlet{s.queues}, issuer{s})
	case config.KindFile:
		return nil, fmt.Errorf("%w: file %s belongs to a system that runs as one process", ErrDestination, d.Target())
	default:
		return nil, fmt.Errorf("%w: %s %s; webhook and stream are served", ErrDestination, d.Kind(), d.Target())
	}
}

func openWebhook(d config.Destination) (record.Sender, error) {
	var options webhook.Options
	if d.Secret != "" {
		secret, err := d.Secret.Resolve()
		if err != nil {
			return nil, err
		}
		if err := webhook.ValidSecret(secret); err != nil {
			return nil, err
		}
		options.Secret = d.Secret.Resolve
	}
	return webhook.New(d.Target(), options)
}

// An issuer issues tokens with the engine, which is made after the destinations.
type issuer struct{ *System }

func (i issuer) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	return i.engine.Issue(ctx, m)
}
