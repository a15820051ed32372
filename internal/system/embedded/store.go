package embedded

import "github.com/effectively-once/once/internal/record"

// store is the engine's store.
type store = record.Store
