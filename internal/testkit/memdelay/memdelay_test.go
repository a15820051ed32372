package memdelay_test

import (
	"testing"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/delay/delaytest"
	"github.com/effectively-once/once/internal/testkit/memdelay"
)

func TestConformance(t *testing.T) {
	delaytest.Run(t, delaytest.Harness{New: func(*testing.T) delay.Store { return memdelay.New() }})
}
