package embedded_test

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
)

func TestAHandlerWhoseStreamIsNotInTheConfigurationIsAnErrorAtStart(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{"streams:\n  orders: {}\n": true, "streams:\n  order: {}\n": false} {
		c, err := config.Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := embedded.Open(embedded.Options{Config: c, DataDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Start([]system.Stream{{Stream: record.Stream{Name: "order"}}})
		if got := err != nil; got != wrong || wrong && !strings.Contains(err.Error(), "which has: orders") {
			t.Errorf("configured %q: %v", text, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
