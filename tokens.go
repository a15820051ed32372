package once

import (
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/lease"
)

// Tokens is where decorators and middleware remember what is done: the token records of one store. [System.Tokens] gives those of a system, [NewMemory] some for
// tests. It may be used concurrently.
type Tokens struct{ store lease.Store }

// NewTokens makes tokens of a store. It is for the packages that open one.
func NewTokens(store lease.Store) *Tokens { return &Tokens{store} }

// NewMemory makes tokens in memory. They end with the process and are not shared with others: for tests and examples.
func NewMemory() *Tokens {
	return NewTokens(memstore.New(time.Now)) //nolint:forbidigo // the one default clock
}
