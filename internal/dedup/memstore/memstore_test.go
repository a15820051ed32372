package memstore_test

import (
	"flag"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/record"
)

var long = flag.Bool("long", false, "make histories of two million operations")

func harness() storetest.Harness {
	return storetest.Harness{
		Open:        func(_ *testing.T, now func() time.Time) record.Store { return memstore.New(now) },
		CommitsDone: true,
	}
}

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func TestHistoriesAreLinearizable(t *testing.T) {
	operations := 10_000
	if *long {
		operations = 2_000_000
	}
	storetest.Histories(t, harness(), operations)
}
