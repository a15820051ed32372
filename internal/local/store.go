package local

import "github.com/effectively-once/once/internal/dedup"

// store is the engine's store.
type store = dedup.Store
