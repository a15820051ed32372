package local

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/destination/stream"
	"github.com/effectively-once/once/internal/destination/webhook"
	"github.com/effectively-once/once/internal/record"
)

// openDestinations opens the configured destinations.
func (s *System) openDestinations(streams []record.Stream) (map[string]record.Sender, error) {
	senders := map[string]record.Sender{}
	if s.options.Inspect {
		return senders, nil
	}
	for _, name := range s.options.Config.DestinationNames() {
		d := s.options.Config.Destinations[name]
		sender, err := s.openDestination(name, d, streams)
		if err != nil {
			return nil, fmt.Errorf("open destination %s: %w", name, err)
		}
		senders[name] = crashingSender{sender}
	}
	return senders, nil
}

func (s *System) openDestination(name string, d config.Destination, streams []record.Stream) (record.Sender, error) {
	switch d.Kind() {
	case config.KindFile:
		if d.Target() == "-" {
			return s.stdout, nil
		}
		return s.openFile(d.Target())
	case config.KindWebhook:
		options := webhook.Options{Now: s.options.Now}
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
	case config.KindStream:
		i := slices.IndexFunc(streams, func(t record.Stream) bool { return t.Name == d.Target() })
		if i < 0 {
			return nil, fmt.Errorf("no stream is named %q", d.Target())
		}
		return stream.New(streams[i], ordered{s.queues}, issuer{s})
	default:
		path := filepath.Join(s.options.DataDir, "destinations", name+".jsonl")
		s.options.Log.Warn("destination needs AWS; its messages are written to a file here", "destination", name, "kind", string(d.Kind()), "path", path)
		return s.openFile(path)
	}
}

func (s *System) openFile(path string) (record.Sender, error) {
	f, err := file.Open(s.db, path, file.Options{Now: s.options.Now, Log: s.options.Log})
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, f)
	return f, nil
}

// An issuer issues tokens with the engine, which is made after the destinations.
type issuer struct{ *System }

func (i issuer) Issue(ctx context.Context, m record.Message) (record.Token, bool, error) {
	return i.engine.Issue(ctx, m)
}
