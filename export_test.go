package once

import "github.com/effectively-once/once/internal/dedup/lease"

// NewTokens returns the tokens of a store that a test makes.
func NewTokens(store lease.Store) *Tokens { return &Tokens{store} }
