package lambda

import (
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/pipeline"
	"github.com/effectively-once/once/internal/record"
)

// ErrDestination says that the functions can't serve a kind of destination.
var ErrDestination = errors.New("the functions have no such destination")

// openDestination opens the destinations that are the same everywhere, by shared. There are no others yet.
func openDestination(_ string, d config.Destination, shared pipeline.Open) (record.Sender, error) {
	switch d.Kind() {
	case config.KindWebhook, config.KindStream:
		return shared()
	case config.KindFile:
		return nil, fmt.Errorf("%w: file %s belongs to a system that runs as one process", ErrDestination, d.Target())
	default:
		return nil, fmt.Errorf("%w: %s %s; webhook and stream are served", ErrDestination, d.Kind(), d.Target())
	}
}
