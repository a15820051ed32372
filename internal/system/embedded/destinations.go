package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// openDestination opens a configured destination: by shared if its kind is the same everywhere.
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
	case config.KindWebhook, config.KindStream, config.KindOnce:
		return shared()
	case config.KindFile:
		if d.Target() == "-" {
			return s.stdout, nil
		}
		return s.openFile(d.Target())
	default: // for the owner of the data folder only, like the rest of it
		if err := os.MkdirAll(filepath.Join(s.options.DataDir, destinationsFolder), 0o700); err != nil {
			return nil, fmt.Errorf("make folder of destinations: %w", err)
		}
		path := filepath.Join(s.options.DataDir, destinationsFolder, name+".jsonl")
		s.options.Log.Warn("destination needs AWS; its messages are written to a file here", "destination", name, "kind", string(d.Kind()), "path", path)
		return s.openFile(path)
	}
}

// openFile opens an output file. One that an earlier configuration has opened stays open until
// Close.
func (s *System) openFile(path string) (record.Sender, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if absolute, err := filepath.Abs(path); err == nil && s.opened[absolute] != nil {
		return s.opened[absolute], nil
	}
	f, err := file.Open(s.db, path, file.Options{
		Now: s.options.Now, Log: s.options.Log, AcceptLoss: s.options.AcceptLoss, Presence: s.keys.Filter,
	})
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, f)
	return f, nil
}

// outputs returns the output files.
func (s *System) outputs() []*file.Sender {
	s.opening.Lock()
	defer s.opening.Unlock()
	return slices.Clone(s.files)
}
