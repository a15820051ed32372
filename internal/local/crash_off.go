//go:build !crashpoints

package local

import "github.com/effectively-once/once/internal/record"

// The crash points exist in test builds only, see crash_on.go.

func crash(string) {}

func crashing(s store) store { return s }

type crashingSender struct{ record.Sender }
