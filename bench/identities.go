package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/effectively-once/once/bench/table"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// memory is a row of the part identities.
type memory struct {
	Identities int     `json:"identities"`
	Micros     float64 `json:"us_a_message"` // of the next 20,000 messages
	Heap       uint64  `json:"live_heap_mb"`
	Resident   uint64  `json:"resident_mb"`
}

// identities measures the time of a message and the memory of the process with more and more
// identities remembered.
func identities(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "once-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := pebbledb.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	e, stop, err := newEngine(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(stop(), err) }()
	debug.SetGCPercent(collectAt)
	reserve := make([]byte, reserveSize)
	defer runtime.KeepAlive(reserve)
	var rows []memory
	for n, until := 0, 1000; ; until *= 10 {
		until = min(until, o.identities)
		if err := fill(ctx, e, &n, until); err != nil {
			return err
		}
		row, err := look(ctx, e, &n)
		if err != nil {
			return err
		}
		row.Identities = until
		rows = append(rows, row)
		fmt.Fprintf(os.Stderr, "%d identities: %d MB resident\n", until, row.Resident)
		if until == o.identities {
			return o.reportMemory(rows)
		}
	}
}

// fill processes messages in batches of 100 groups, of a thousand groups in all, until n is
// reached.
func fill(ctx context.Context, e *dedup.Engine, n *int, until int) error {
	for *n < until {
		batch := make([]record.Message, 100)
		for i := range batch {
			batch[i] = record.Message{Stream: "key", ID: strconv.Itoa(*n), Group: strconv.Itoa(*n % 1000), Body: []byte(`{"a":1}`)}
			*n++
		}
		if err := process(ctx, e, batch); err != nil {
			return err
		}
	}
	return nil
}

func look(ctx context.Context, e *dedup.Engine, n *int) (memory, error) {
	const more = 20_000
	start := time.Now()
	err := fill(ctx, e, n, *n+more)
	took := time.Since(start)
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{Micros: micros(took) / more, Heap: m.HeapAlloc >> 20, Resident: field("/proc/self/status", "VmRSS:") >> 10}, err
}

func (o options) reportMemory(rows []memory) error {
	if o.json {
		return o.print(rows)
	}
	t := table.Table{Head: []string{"identities", "µs a message", "live heap, MB", "resident, MB (aim ≤ 300)"}}
	for _, r := range rows {
		t.Add(strconv.Itoa(r.Identities), table.Digits(r.Micros), strconv.FormatUint(r.Heap, 10), strconv.FormatUint(r.Resident, 10))
	}
	return t.Write(os.Stdout)
}
