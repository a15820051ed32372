package embedded

import (
	"context"
	"sync"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
)

// A keyFilter is the filter of the keys of groups, tokens and marks. From the first call of start
// until stop, a goroutine fills it. Until it is filled once, the stores look up every key.
type keyFilter struct {
	*presence.Filter // nil if there is none
	failed           func(error)

	once sync.Once
	end  func()
}

// newKeyFilter returns the filter of a system. A process that only inspects a data folder has none,
// because it reads little.
func (s *System) newKeyFilter() *keyFilter {
	k := &keyFilter{end: func() {}, failed: func(err error) {
		s.options.Log.Warn("keys not read into memory; messages cost more lookups", "error", err)
	}}
	if !s.options.Inspect {
		k.Filter = presence.New(s.db, pebbledb.Tokens, pebbledb.Groups, pebbledb.Files)
	}
	return k
}

func (k *keyFilter) start() {
	if k.Filter == nil {
		return
	}
	k.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := k.Run(ctx); err != nil {
				k.failed(err)
			}
		}()
		k.end = func() {
			cancel()
			<-done
		}
	})
}

// stop ends the goroutine. The database must still be open.
func (k *keyFilter) stop() {
	k.once.Do(func() {}) // start does nothing from now on
	k.end()
}
