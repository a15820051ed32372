package memstore_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/record"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(_ *testing.T, now func() time.Time) record.Store { return memstore.New(now) },
	})
}
