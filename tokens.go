package once

import (
	"time"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/memstore"
)

// Tokens are the token records of one store, in which decorators and middleware remember done
// messages. Packages oncesql and oncedynamo return those of a database, for services with replicas;
// [System.Tokens] returns those of a system, and [NewMemory] some for tests. They may be used
// concurrently.
type Tokens struct{ store lease.Store }

// NewMemory returns tokens in memory. They end with the process and are not shared with other
// processes: for tests and examples.
func NewMemory() *Tokens {
	return &Tokens{memstore.New(time.Now)} //nolint:forbidigo // the one default clock
}
