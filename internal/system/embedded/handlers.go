package embedded

import (
	"fmt"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/handler/program"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// openHandler opens a configured handler of a stream: by shared if its kind is the same everywhere.
func (s *System) openHandler(stream string, h config.Handler, shared pipeline.OpenHandler) (handler.Caller, error) {
	switch {
	case s.options.Inspect:
		return nil, nil
	case h.Kind() == config.HandlerURL:
		return shared()
	case h.Kind() == config.HandlerExec && s.options.Programs != nil:
		return program.New(program.Options{
			Command: h.Exec, Timeout: h.Timeout.Std(), Env: []string{"ONCE_STREAM=" + stream}, Stderr: s.options.Programs, Log: s.options.Log.With("stream", stream),
		})
	}
	return nil, fmt.Errorf("%s %s", h.Kind(), h.Where())
}
