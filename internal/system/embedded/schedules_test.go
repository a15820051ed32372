package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// A scheduled system runs at a time that the test sets.
type scheduled struct {
	*place
	now atomic.Pointer[time.Time]
	sys *embedded.System
	end func()
}

const scheduling = `
streams:
  reports: {admission: ADMISSION, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
schedules:
  nightly: {cron: "0 3 * * *", timezone: Europe/Berlin, stream: reports, body: {all: true}}
`

func (s *scheduled) at(text string) {
	s.t.Helper()
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.t.Fatal(err)
	}
	s.now.Store(&now)
}

func (s *scheduled) parsed() *config.Config {
	s.t.Helper()
	c, err := config.Parse("test", []byte(strings.ReplaceAll(s.config, "DIR", s.dir)))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *scheduled) start() {
	s.t.Helper()
	var err error
	if s.sys, err = embedded.Open(embedded.Options{Config: s.parsed(), DataDir: s.data(), Now: func() time.Time { return *s.now.Load() }}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.sys.Start(nil); err != nil {
		s.t.Fatal(errors.Join(err, s.sys.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.sys.Run(ctx) }()
	s.end = func() {
		cancel()
		if err := errors.Join(<-done, s.sys.Close()); err != nil {
			s.t.Error(err)
		}
	}
}

// ledger waits until the file has as many messages, and compares them.
func (s *scheduled) ledger(want ...string) {
	s.t.Helper()
	var got []string
	eventually.Succeeds(s.t, func() error {
		got = nil
		for _, l := range s.lines() {
			got = append(got, l.Group+" "+l.Headers["Schedule"]+" "+l.Headers["Scheduled-For"])
		}
		if len(got) < len(want) {
			return fmt.Errorf("messages: %q, want %q", got, want)
		}
		return nil
	})
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// known waits until the store knows a message: its mark is written after the line of the file.
func (s *scheduled) known(id string) {
	s.t.Helper()
	eventually.Succeeds(s.t, func() error {
		m, err := s.sys.Message(s.t.Context(), "reports", id)
		if err == nil && m.ID != id {
			err = fmt.Errorf("message %s of the tick: %+v", id, m)
		}
		return err
	})
}

// next waits until the schedule says that its next tick is at a time.
func (s *scheduled) next(want string) {
	s.t.Helper()
	eventually.Succeeds(s.t, func() error {
		list, err := s.sys.Schedules(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list) != 1 || list[0].State != "waiting" || list[0].Next.Format(time.RFC3339) != want {
			return fmt.Errorf("the next ticks are %+v, want one at %q", list, want)
		}
		return nil
	})
}

func TestASystemSendsTheTicksOfItsSchedulesOnceAcrossRestarts(t *testing.T) {
	t.Parallel()
	for _, admission := range []string{"key", "token"} {
		synctest.Test(t, func(t *testing.T) {
			s := &scheduled{place: &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: strings.ReplaceAll(scheduling, "ADMISSION", admission)}}
			s.at("2026-11-27T01:59:00Z")
			s.start()
			s.next("2026-11-27T02:00:00Z") // 03:00 in Berlin
			s.at("2026-11-27T02:00:00Z")
			first := "nightly nightly 2026-11-27T02:00:00Z"
			s.ledger(first)
			s.next("2026-11-28T02:00:00Z")
			s.known("nightly/2026-11-27T02:00:00Z")
			s.end()
			s.at("2026-11-27T09:00:00Z")
			s.start()
			s.next("2026-11-28T02:00:00Z")
			s.ledger(first)
			s.end()
			s.at("2026-12-02T05:00:00Z") // five times are missed
			s.start()
			s.ledger(first, "nightly nightly 2026-12-02T02:00:00Z")
			s.next("2026-12-03T02:00:00Z")
			s.end()
		})
	}
}

func TestAReloadChangesSchedulesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scheduled{place: &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: strings.ReplaceAll(scheduling, "ADMISSION", "key")}}
		s.at("2026-11-27T01:59:00Z")
		s.start()
		defer func() { s.end() }()
		s.next("2026-11-27T02:00:00Z")
		s.config = strings.ReplaceAll(s.config, "0 3 * * *", "*/5 * * * *")
		changed, err := s.sys.Reconfigure(t.Context(), s.parsed())
		if diff := cmp.Diff([]string{"schedules.nightly.cron"}, changed); err != nil || diff != "" {
			t.Fatalf("changed: %v (-want +got):\n%s", err, diff)
		}
		s.next("2026-11-27T02:00:00Z")
		s.at("2026-11-27T02:05:00Z")
		s.ledger("nightly nightly 2026-11-27T02:05:00Z") // the latest of two
		s.config, _, _ = strings.Cut(s.config, "schedules:")
		if _, err := s.sys.Reconfigure(t.Context(), s.parsed()); err != nil {
			t.Fatal(err)
		}
		s.at("2026-11-27T02:10:00Z")
		s.ledger("nightly nightly 2026-11-27T02:05:00Z")
	})
}
