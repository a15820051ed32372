package client_test

import (
	"testing"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/testkit/consumertest"
)

func TestConsumersSurviveTheFaultsOfTheTable(t *testing.T) {
	for name, place := range map[string]func(*testing.T) consumertest.Place{
		"engine": consumertest.Engine, "file": consumertest.File, "calls": consumertest.Calls,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			consumertest.Run(t, func(t *testing.T) consumertest.Server {
				t.Helper()
				p := newPool(t, session.Config{})
				p.fill(consumertest.IDs()...)
				return consumertest.Server{URL: "http://once.test", Transport: p, Restart: p.restart, Letters: p.letters}
			}, place)
		})
	}
}
