//go:build !crashpoints

package embedded

import (
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// The crash points exist in test builds only, see crash_on.go.

func crash(string) {}

func crashing(s store) store { return s }

func crossing(_ string, q queue.Queue) queue.Queue { return q }

type crashingSender struct{ record.Sender }
