package embedded

import (
	"context"
	"errors"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/config/change"
	"github.com/effectively-once/once/internal/destination/file"
)

// A RestartError says that a running system can't take a configuration.
type RestartError struct {
	// Fields are those that need a restart.
	Fields []string
}

func (e *RestartError) Error() string {
	return "restart to apply " + strings.Join(e.Fields, ", ")
}

// Reconfigure makes a running system work by another configuration, and returns the fields that
// changed. Nothing is interrupted: calls that began with the old configuration end with it. The
// system takes the whole configuration or, if it returns an error, nothing of it. If a field can't
// be changed without a restart, that is a [*RestartError].
//
// If a destination is gone, its pending effects wait until it is back, as after a restart. The
// effects that fail at a destination that changed are tried now.
func (s *System) Reconfigure(_ context.Context, c *config.Config) (changed []string, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.now()
	changed, restart := change.Reload(before.config, c)
	if len(restart) > 0 {
		return nil, &RestartError{restart}
	}
	files := s.keepFiles()
	g, err := s.newGeneration(c, before)
	if err != nil {
		return nil, errors.Join(err, s.closeFiles(files))
	}
	front, err := s.nextFront(c)
	if err != nil {
		return nil, errors.Join(err, g.pipeline.Discard(), s.closeFiles(files))
	}
	for _, x := range change.Compare(before.config, c, nil) {
		s.options.Log.Warn("a change of the configuration needs care", "field", x.Subject, "change", x.Change, "effect", x.Effect)
	}
	s.takeFront(front)
	g.pipeline.TakeOver()
	s.generation.Store(g)
	select {
	case s.replaced <- struct{}{}:
	default: // one is enough
	}
	s.direct.SetStreams(g.pipeline.Direct(local))
	s.forgetWaits(before.config, c)
	s.tryAgain(before.config, c)
	return changed, nil
}

// Alive returns nil if the system makes progress: the disk takes a write. If the disk does not
// answer, it returns when it does.
func (s *System) Alive(context.Context) error {
	if !s.requests.enter() {
		return nil // it is ending
	}
	defer s.requests.leave()
	return durable{system: s}.sync()
}

// keepFiles makes a later configuration use the files that are open, and returns how many there
// are.
func (s *System) keepFiles() int {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.opened = map[string]*file.Sender{}
	for _, f := range s.files {
		s.opened[f.Path()] = f
	}
	return len(s.files)
}

// closeFiles closes the files that were opened since keepFiles.
func (s *System) closeFiles(kept int) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	var errs []error
	for _, f := range s.files[kept:] {
		errs = append(errs, f.Close())
	}
	s.files = s.files[:kept]
	return errors.Join(errs...)
}

// forgetWaits forgets the failed tries at destinations that are gone: nothing tries there any more.
func (s *System) forgetWaits(from, to *config.Config) {
	for _, w := range s.waiting.All() {
		if _, was := from.Destinations[w.Destination]; was {
			if _, is := to.Destinations[w.Destination]; !is {
				s.waiting.Settled(w)
			}
		}
	}
}

// tryAgain ends the pauses of all triggers if a destination was added or changed: it may take
// effects that the old one did not.
func (s *System) tryAgain(from, to *config.Config) {
	if changed, _ := change.Reload(&config.Config{Destinations: from.Destinations}, &config.Config{Destinations: to.Destinations}); len(changed) > 0 {
		s.queues.publish.Hasten()
		s.queues.publishFIFO.Hasten()
	}
}
