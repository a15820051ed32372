//go:build !crashpoints

package embedded

import (
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// The crash points exist in test builds only, see crash_on.go.

func crash(string) {}

func crashing(s store) store { return s }

func crossing(_ string, q queue.Queue) queue.Queue { return q }

func crossingDelays(_ string, s delay.Store) delay.Store { return s }

type crashingSender struct{ record.Sender }
