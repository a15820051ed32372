package deployed_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/function/environment"
)

func TestTheConfigurationIsThatOfTheProcessFunction(t *testing.T) {
	w := newWorld(t)
	read := func(want ...string) {
		t.Helper()
		w.open(t)
		c, err := w.stack.Configuration(t.Context())
		if err != nil || !slices.Equal(c.StreamNames(), want) {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	read("chat", "orders") // from the archive
	delete(w.aws.Outputs, "ProcessFunction")
	read("chat", "orders") // of a function that is found by its environment
	w.aws.Outputs["ProcessFunction"] = "process"
	process := w.aws.Functions["process"]
	process.Environment = maps.Clone(process.Environment)
	process.Environment[environment.Config] = "streams:\n  inline: {}\n"
	w.aws.Functions["process"] = process
	read("inline") // from its variable

	process.Environment[environment.Config] = "streams:\n  later: {future: true}\n"
	_, err := w.stack.Configuration(t.Context())
	var invalid *config.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "of this version") {
		t.Errorf("a configuration of another version: %v", err)
	}
	delete(process.Environment, environment.Config)
	if _, err := w.stack.Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("none: %v", err)
	}
}

func TestASystemReadsItsConfigurationWhenItIsNeeded(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("o-1", ""))
	s, err := w.stack.System(deployed.SystemOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.aws.Denied = []string{"GetFunction"}
	if g, err := s.Group(t.Context(), "orders", "customer-7"); err != nil || g.Version != 1 {
		t.Errorf("a group that exists: %+v, %v", g, err)
	}
	var denied *deployed.DeniedError
	if _, err := s.Group(t.Context(), "orders", "nobody"); !errors.As(err, &denied) {
		t.Errorf("a group that does not: %v", err)
	}
	w.aws.Denied = nil
	if _, err := s.Group(t.Context(), "orders", "nobody"); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("a group that does not: %v", err)
	}
	if _, err := s.Group(t.Context(), "nope", "nobody"); !errors.Is(err, admin.ErrNotFound) || !strings.HasPrefix(err.Error(), "stream nope") {
		t.Errorf("a stream that is not configured: %v", err)
	}
}

func TestCheckComparesTheFunctionsWithEachOther(t *testing.T) {
	w := newWorld(t)
	check := func() (wrong []string) {
		t.Helper()
		findings, err := w.stack.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Check == "configuration" && f.Verdict != deployed.OK {
				wrong = append(wrong, f.Resource+" "+f.Detail)
			}
		}
		return wrong
	}
	if got := check(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	publish := w.aws.Functions["publish"]
	publish.Config += "# old\n"
	w.aws.Functions["publish"] = publish
	if got := check(); len(got) != 1 || got[0] != "publish is not that of function process: deploy again" {
		t.Errorf("got %q", got)
	}
}
