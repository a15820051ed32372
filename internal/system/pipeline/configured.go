package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// Configured returns an error if code declares something that the configuration lacks: a stream, or
// another admission, order, retention, gap policy, bounds or timeout. It is for systems in which some
// programs know only the configuration; these would issue, route, hold and remember otherwise, and
// a deployment checks the timeouts in the configuration. The time for which groups are kept may
// differ, as their records hold it. The error names every such stream with its settings.
func Configured(c *config.Config, declared []system.Stream) error {
	file, err := effective(c, nil)
	if err != nil {
		return err
	}
	code, err := effective(c, declared)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range declared {
		f, ok := file[d.Name]
		if !ok {
			errs = append(errs, fmt.Errorf("stream %s is declared in code only: add it to once.yaml, because the other functions read only that file", d.Name))
			continue
		}
		if want := c.Handlers[d.Name].WithDefaults().Timeout.Std(); d.Handler != nil && code[d.Name].Timeout != want {
			errs = append(errs, fmt.Errorf("stream %s: a timeout of %v in the code, and of %v in once.yaml: set handlers.%s.timeout there, because a deployment checks that it fits into the functions", d.Name, code[d.Name].Timeout, want, d.Name))
		}
		if differ := differing(f, code[d.Name]); len(differ) > 0 {
			errs = append(errs, fmt.Errorf("stream %s: %s differs between the code and once.yaml: change once.yaml, because the other functions read only that file",
				d.Name, strings.Join(differ, ", ")))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// effective returns the streams with their defaults.
func effective(c *config.Config, declared []system.Stream) (record.Streams, error) {
	streams, err := merge(c, declared, 1, true)
	if err != nil {
		return nil, err
	}
	return record.NewStreams(streams)
}

// differing names the settings that all programs of a system have to agree on, and that differ
// between two streams.
func differing(a, b record.Stream) []string {
	var names []string
	for _, field := range []struct {
		name  string
		other bool
	}{
		{"admission", a.Admission != b.Admission},
		{"order", a.Unordered != b.Unordered},
		{"retention", a.Retention != b.Retention},
		{"gap", a.Gap != b.Gap},
		{"held", a.Bounds != b.Bounds},
	} {
		if field.other {
			names = append(names, field.name)
		}
	}
	return names
}
