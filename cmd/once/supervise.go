package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

// A running server can take another configuration, read its keys and certificates again, and says
// whether it is alive.
type running interface {
	Reconfigure(ctx context.Context, c *config.Config) (changed []string, err error)
	Reload() error
	Alive(ctx context.Context) error
}

// A supervisor tells the service manager about a server, and reloads its configuration on SIGHUP.
// If no service manager has started this process, it tells nobody.
type supervisor struct {
	options embedded.Options
	load    func() (*config.Config, error)
	hangups chan os.Signal
	ready   chan struct{} // closed when the server is ready
}

// supervised returns a supervisor. From now on, SIGHUP never ends the process.
func supervised(o embedded.Options, load func() (*config.Config, error)) *supervisor {
	v := &supervisor{options: o, load: load, hangups: make(chan os.Signal, 1), ready: make(chan struct{})}
	signal.Notify(v.hangups, syscall.SIGHUP)
	return v
}

// run supervises a server until ended is closed. The server drains when ctx ends. SIGHUP stays
// caught after that: it must not end the process while the database is closed.
func (v *supervisor) run(ctx context.Context, s running, ended <-chan struct{}) {
	select {
	case <-v.ready:
		v.notify(daemon.SdNotifyReady)
	case <-ended:
		return
	}
	watchdog, stop := v.watchdog()
	defer stop()
	draining := ctx.Done()
	for {
		select {
		case <-v.hangups:
			v.reload(ctx, s)
		case <-watchdog:
			if err := s.Alive(ctx); err == nil {
				v.notify(daemon.SdNotifyWatchdog)
			} else {
				v.options.Log.Error("the system makes no progress", "error", err)
			}
		case <-draining:
			v.notify(daemon.SdNotifyStopping)
			draining = nil
		case <-ended:
			return
		}
	}
}

// watchdog returns the times at which the service manager wants to hear that the server is alive:
// twice in the time that it waits, or never.
func (v *supervisor) watchdog() (times <-chan time.Time, stop func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		v.options.Log.Warn("the watchdog of the service manager is not used", "error", err)
	}
	if err != nil || interval <= 0 {
		return nil, func() {}
	}
	tick := time.NewTicker(interval / 2)
	return tick.C, tick.Stop
}

// reload makes the server work by the configuration as it is now. If it can't, it reads the keys
// and certificates again where the old configuration says they are: a key that an operator has
// removed must not stay valid because of a mistake elsewhere.
func (v *supervisor) reload(ctx context.Context, s running) {
	v.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	status := "configuration reloaded"
	if err := v.reconfigure(ctx, s); err != nil {
		status = "configuration not reloaded"
		needed, restart := errors.AsType[*embedded.RestartError](err)
		if restart {
			v.options.Log.Error("configuration not reloaded, the old one stays: restart to apply", "fields", strings.Join(needed.Fields, ", "))
		} else {
			v.options.Log.Error("configuration not reloaded, the old one stays", "error", err)
		}
		// A removed key must stop working, even if once.yaml has a mistake.
		if err := s.Reload(); err != nil {
			v.options.Log.Error("keys or certificates not read again, the old ones stay", "error", err)
		} else {
			v.options.Log.Info("keys and certificates were read again")
		}
	}
	v.notify(daemon.SdNotifyReady + "\nSTATUS=" + status)
}

func (v *supervisor) reconfigure(ctx context.Context, s running) error {
	c, err := v.load()
	if err != nil {
		return err
	}
	changed, err := s.Reconfigure(ctx, c)
	if err != nil {
		return err
	}
	for _, w := range c.Server.Exposed(v.options.Listen) {
		v.options.Log.Warn("the server is exposed", "what", w)
	}
	if len(changed) == 0 {
		changed = []string{"nothing but keys and certificates, which were read again"}
	}
	v.options.Log.Info("configuration reloaded", "changed", strings.Join(changed, ", "))
	return nil
}

// notify tells the service manager something, if there is one.
func (v *supervisor) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		v.options.Log.Warn("the service manager was not told", "error", err)
	}
}
