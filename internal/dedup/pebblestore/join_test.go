package pebblestore

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

// A slow disk applies batches one after the other, each when the test answers.
type slowDisk struct {
	t       *testing.T
	db      *pebble.DB
	joiner  joiner
	applied chan int // how many records the batch has, when it is about to be written
	answers chan func() error
	results chan error // of writes
	written int
}

func newSlowDisk(t *testing.T) *slowDisk {
	t.Helper()
	db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &slowDisk{t: t, db: db, applied: make(chan int), answers: make(chan func() error), results: make(chan error, 100)}
	d.joiner.db = db
	d.joiner.apply = func(batch *pebble.Batch) error {
		d.applied <- int(batch.Count())
		if err := (<-d.answers)(); err != nil {
			return err
		}
		return errors.Join(batch.Commit(pebble.NoSync), batch.Close())
	}
	return d
}

// write starts a write of one record and waits until it is applied or waits with as many others.
func (d *slowDisk) write(size, others int) {
	d.t.Helper()
	batch := d.db.NewBatch()
	if err := batch.Set(fmt.Appendf(nil, "z%d", d.written), make([]byte, size), nil); err != nil {
		d.t.Fatal(err)
	}
	d.written++
	go func() {
		defer func() {
			if p := recover(); p != nil {
				d.results <- fmt.Errorf("panic: %v", p)
			}
		}()
		d.results <- d.joiner.write(batch)
	}()
	for limit := time.After(time.Minute); d.gathered() != others; runtime.Gosched() {
		select {
		case <-limit:
			d.t.Fatalf("%d writes wait together, not %d", d.gathered(), others)
		default:
		}
	}
}

func (d *slowDisk) gathered() int {
	d.joiner.mu.Lock()
	defer d.joiner.mu.Unlock()
	if d.joiner.open == nil {
		return 0
	}
	return len(d.joiner.open.batches)
}

// take returns the results of n writes.
func (d *slowDisk) take(n int) (errs []error) {
	for range n {
		errs = append(errs, <-d.results)
	}
	return errs
}

// begin starts a write that nothing delays.
func (d *slowDisk) begin() {
	d.t.Helper()
	d.write(10, 0)
	if n := <-d.applied; n != 1 {
		d.t.Fatalf("the first batch has %d records", n)
	}
}

func works() error { return nil }

func TestWritesThatComeDuringASyncAreOneBatch(t *testing.T) {
	d := newSlowDisk(t)
	d.begin()
	for n := range 20 {
		d.write(10, n+1)
	}
	d.answers <- works
	if n := <-d.applied; n != 20 {
		t.Errorf("the second batch has %d records, not 20", n)
	}
	if err := d.take(1)[0]; err != nil {
		t.Error(err)
	}
	d.answers <- works
	if err := errors.Join(d.take(20)...); err != nil {
		t.Error(err)
	}
	for n := range d.written {
		_, closer, err := d.db.Get(fmt.Appendf(nil, "z%d", n))
		if err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLargeWritesAreSeveralBatches(t *testing.T) {
	d := newSlowDisk(t)
	d.begin()
	d.write(200<<10, 1)
	d.write(200<<10, 2)
	d.write(200<<10, 1)
	d.answers <- works
	if n := <-d.applied; n != 2 {
		t.Errorf("a batch has %d records, not 2", n)
	}
	if n := d.gathered(); n != 1 {
		t.Errorf("while the full batch is written, %d writes wait, not 1", n)
	}
	d.write(200<<10, 2)
	d.write(2*maxJoined, 1)
	for _, want := range []int{2, 1} {
		d.answers <- works
		if n := <-d.applied; n != want {
			t.Errorf("a batch has %d records, not %d", n, want)
		}
	}
	d.answers <- works
	if err := errors.Join(d.take(d.written)...); err != nil {
		t.Error(err)
	}
}

func TestAFailedBatchFailsAllOfItsWritesAndNoOthers(t *testing.T) {
	errDisk := errors.New("the disk fails")
	for name, fails := range map[string]struct {
		answer func() error
		others error
	}{
		"error": {func() error { return errDisk }, errDisk},
		"panic": {func() error { panic(errDisk) }, errNotWritten},
	} {
		t.Run(name, func(t *testing.T) {
			d := newSlowDisk(t)
			d.begin()
			for n := range 3 {
				d.write(10, n+1)
			}
			d.answers <- works
			<-d.applied
			if err := d.take(1)[0]; err != nil {
				t.Errorf("a write of the batch before: %v", err)
			}
			d.write(10, 1)
			d.answers <- fails.answer
			<-d.applied
			errs := d.take(3)
			if others := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !errors.Is(err, fails.others) }); slices.Contains(errs, nil) || len(others) < 2 {
				t.Errorf("the writes of the batch: %v", errs)
			}
			d.answers <- works
			if err := d.take(1)[0]; err != nil {
				t.Errorf("a write of the batch after it: %v", err)
			}
		})
	}
}
