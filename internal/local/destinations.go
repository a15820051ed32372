package local

import (
	"path/filepath"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pipeline"
	"github.com/effectively-once/once/internal/record"
)

// openDestination opens a configured destination: those that are the same everywhere by shared.
func (s *System) openDestination(name string, d config.Destination, shared pipeline.Open) (record.Sender, error) {
	if s.options.Inspect {
		return nil, nil
	}
	sender, err := s.sender(name, d, shared)
	if err != nil {
		return nil, err
	}
	return crashingSender{sender}, nil
}

func (s *System) sender(name string, d config.Destination, shared pipeline.Open) (record.Sender, error) {
	switch d.Kind() {
	case config.KindWebhook, config.KindStream:
		return shared()
	case config.KindFile:
		if d.Target() == "-" {
			return s.stdout, nil
		}
		return s.openFile(d.Target())
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
