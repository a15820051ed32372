package pipeline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/destination/webhook"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/handler/remote"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/direct"
)

// unopened is the handler of a stream whose configured handler is not opened in this process.
func unopened(context.Context, *record.Batch) error {
	return errors.New("this process does not call the handlers of once.yaml")
}

// CheckRegistered fails if the configuration has settings for a handler in code that the program
// does not register: the messages would be forwarded.
func CheckRegistered(c *config.Config, declared []system.Stream) error {
	for _, name := range c.HandlerNames() {
		h := c.Handlers[name]
		registered := slices.ContainsFunc(declared, func(d system.Stream) bool { return d.Name == name && d.Handler != nil })
		if h.Kind() == config.HandlerCode && !registered {
			return fmt.Errorf("handlers.%s: %s; this one registers none", name, h.Where())
		}
	}
	return nil
}

// openHandlers opens the configured handlers, and sets them in their streams.
func (p *Pipeline) openHandlers() error {
	var errs []error
	for i := range p.streams {
		s := &p.streams[i]
		c, configured := p.cfg.Config.Handlers[s.Name]
		if !configured || c.Kind() == config.HandlerCode {
			continue
		}
		h, err := p.openHandler(s, c.WithDefaults())
		if err != nil {
			errs = append(errs, fmt.Errorf("open handler of stream %s: %w", s.Name, err))
			continue
		}
		if h != nil {
			p.handlers[s.Name] = h
			s.Batch = direct.WatchedBatch(p.cfg.Watch.Batch(h.Handle))
		}
	}
	return errors.Join(errs...)
}

func (p *Pipeline) openHandler(s *record.Stream, c config.Handler) (*handler.Handler, error) {
	if kept := p.keptHandler(s, c); kept != nil {
		return kept, nil
	}
	caller, err := p.cfg.OpenHandler(s.Name, c, func() (handler.Caller, error) { return p.openCaller(c) })
	if err != nil || caller == nil {
		return nil, err
	}
	concurrency, pause := c.Concurrency, time.Duration(0)
	if c.Kind() == config.HandlerExec { // somebody is changing it, and waits for the next try
		concurrency, pause = 1, 2*time.Second
	}
	return handler.New(caller, handler.Options{
		Stream: s.Name, Destinations: s.Events, Timeout: c.Timeout.Std(), Concurrency: concurrency, MaxPause: pause, Now: p.cfg.Now, Log: p.cfg.Log,
	}), nil
}

// keptHandler returns the handler of the replaced pipeline if nothing of it has changed, or nil. It
// knows whether the program is down.
func (p *Pipeline) keptHandler(s *record.Stream, c config.Handler) *handler.Handler {
	if p.cfg.Before == nil {
		return nil
	}
	before := p.cfg.Before
	was := before.cfg.Config.Handlers[s.Name].WithDefaults()
	i := slices.IndexFunc(before.streams, func(x record.Stream) bool { return x.Name == s.Name })
	if i < 0 || !reflect.DeepEqual(was, c) || !slices.Equal(before.streams[i].Events, s.Events) {
		return nil
	}
	return before.handlers[s.Name]
}

// boundsOf returns the bounds of the handler in code of a stream, or nil. p may be nil.
func (p *Pipeline) boundsOf(stream string) *handler.Bounds {
	if p == nil {
		return nil
	}
	return p.bounds[stream]
}

// openCaller opens the caller of a handler with a URL.
func (p *Pipeline) openCaller(c config.Handler) (handler.Caller, error) {
	if c.Kind() != config.HandlerURL {
		return nil, fmt.Errorf("this system can't call a handler of the kind %s", c.Kind())
	}
	options := remote.Options{Concurrency: c.Concurrency, Now: p.cfg.Now}
	if c.Secret != "" {
		options.Secret = p.cfg.Secret(c.Secret.Place())
	}
	if c.Secret.Local() {
		secret, err := options.Secret()
		if err != nil {
			return nil, err
		}
		if err := webhook.ValidSecret(secret); err != nil {
			return nil, err
		}
	}
	return remote.New(c.URL, options)
}

// Discard ends a pipeline that does not replace the one before, because of an error. It closes the
// handlers that the one before does not have.
func (p *Pipeline) Discard() error {
	var errs []error
	for name, h := range p.handlers {
		if p.cfg.Before == nil || p.cfg.Before.handlers[name] != h {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}

// closeReplaced closes the handlers of the replaced pipeline that this one does not have. Their
// calls end first.
func (p *Pipeline) closeReplaced() {
	if p.cfg.Before == nil {
		return
	}
	for name, h := range p.cfg.Before.handlers {
		if p.handlers[name] == h {
			continue
		}
		go func() {
			if err := h.Close(); err != nil {
				p.cfg.Log.Warn("replaced handler not closed", "stream", name, "error", err)
			}
		}()
	}
}

// Close closes the handlers of the configuration. No message may be processed any more.
func (p *Pipeline) Close() error {
	var errs []error
	for _, h := range p.handlers {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}
