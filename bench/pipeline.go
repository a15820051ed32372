package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// pipeline sends messages over HTTP and waits until the last line is in the file.
func pipeline(ctx context.Context, o options) (err error) {
	s, err := openServer(ctx, o, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	start := time.Now()
	send := post(s.url+"/v1/streams/messages/messages", "")
	sent := 0
	for sent < o.messages {
		rate, err := send(ctx, time.Second)
		if err != nil {
			return err
		}
		sent += int(rate)
	}
	accepted := time.Since(start)
	for lines := 0; lines < sent; {
		content, err := os.ReadFile(filepath.Join(s.dir, "out.jsonl"))
		if err != nil {
			return err
		}
		if lines = bytes.Count(content, []byte("\n")); lines < sent {
			// the file is another part's work, watched from outside
			time.Sleep(20 * time.Millisecond)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	total := time.Since(start)
	fmt.Printf("  %d messages: accepted in %.1f s, in the file after %.1f s, %.0f/s end to end\n", sent, accepted.Seconds(), total.Seconds(), float64(sent)/total.Seconds())
	return nil
}

// identities measures a message's cost and the live heap when few and when many identities are
// remembered.
func identities(ctx context.Context, o options) (err error) {
	db, closing, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	e, err := newEngine(db)
	if err != nil {
		return err
	}
	// All groups are there before the first measurement: what differs between the two is how many
	// identities are remembered.
	const groups = 1000
	n := 0
	fill := func(until int) error {
		for n < until {
			batch := make([]record.Message, 100)
			for i := range batch {
				batch[i] = record.Message{Stream: "key", ID: fmt.Sprintf("m-%d", n), Group: fmt.Sprintf("g-%d", n%groups), Body: []byte(`{"a":1}`)}
				n++
			}
			for _, out := range e.Process(ctx, batch) {
				if out.Kind != record.Processed {
					return fmt.Errorf("outcome %s %w", out.Kind, out.Err)
				}
			}
		}
		return ctx.Err()
	}
	measure := func() (float64, error) {
		const more = 20_000
		start := time.Now()
		err := fill(n + more)
		return time.Since(start).Seconds() / more * 1e6, err
	}
	if err := fill(groups); err != nil {
		return err
	}
	few, err := measure()
	if err != nil {
		return err
	}
	if err := fill(1_000_000); err != nil {
		return err
	}
	many, err := measure()
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("  %.1f µs a message with 10^3 identities, %.1f µs with 10^6: ratio %.2f, to hold at most 1.30\n", few, many, many/few)
	fmt.Printf("  live heap with 10^6 identities: %d MB, to hold at most 256 MB\n", m.HeapAlloc>>20)
	return nil
}
