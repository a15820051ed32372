package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// A bench is a database and a path in a folder of its own.
type bench struct {
	t    *testing.T
	db   *pebble.DB
	path string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	db, err := pebbledb.Open(filepath.Join(t.TempDir(), "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{t: t, db: db, path: filepath.Join(t.TempDir(), "a", "b", "out.jsonl")}
}

// open opens the file with a filter that knows all marks.
func (b *bench) open(options Options) *Sender {
	b.t.Helper()
	options.Presence = presence.New(b.db, pebbledb.Files)
	if err := options.Presence.Fill(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	s, err := Open(b.db, b.path, options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (b *bench) close(s *Sender) {
	b.t.Helper()
	if err := s.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) send(s *Sender, deliveries ...record.Delivery) {
	b.t.Helper()
	for i, err := range s.Send(b.t.Context(), deliveries) {
		if err != nil {
			b.t.Fatalf("delivery %d: %v", i, err)
		}
	}
}

// want compares the lines by group/number, or by id if there is no number.
func (b *bench) want(names ...string) {
	b.t.Helper()
	content, err := os.ReadFile(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	want := ""
	for _, name := range names {
		want += line(name)
	}
	if diff := cmp.Diff(want, string(content)); diff != "" {
		b.t.Error(diff)
	}
}

func (b *bench) append(text string) {
	b.t.Helper()
	f, err := os.OpenFile(b.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func line(name string) string {
	d := named(name)
	return string(appendLine(nil, &d))
}

// named makes the delivery group/number, or one without a number.
func named(name string) record.Delivery {
	d := record.Delivery{Identity: "s/" + name, Stream: "s", Effect: record.Effect{ID: name, Body: []byte("content of " + name)}}
	if group, number, ok := strings.Cut(name, "/"); ok {
		d.Group, d.Incarnation = group, 1
		if _, err := fmt.Sscan(number, &d.Number); err != nil {
			panic(err)
		}
	}
	return d
}

func TestADeliveryIsWrittenOnce(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.send(s, named("a/1"), named("a/1"), named("x"), named("x"), named("a/2"))
	b.send(s, named("a/1"), named("a/2"), named("x"), named("a/3"), named("b/1"))
	b.close(s)
	s = b.open(Options{})
	b.send(s, named("a/3"), named("b/1"), named("x"), named("y"))
	b.want("a/1", "x", "a/2", "a/3", "b/1", "y")
}

// Pebble counts how often it asks the bloom filter of a table, which it does in each lookup of a
// key in that table's range.
func TestNewDeliveriesNeedNoLookups(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	for i := range 100 {
		b.send(s, named(fmt.Sprint("old", i)))
	}
	if err := b.db.Flush(); err != nil {
		t.Fatal(err)
	}
	asked := func() int64 { f := b.db.Metrics().Filter; return f.Hits + f.Misses }
	before := asked()
	for i := range 100 {
		b.send(s, named(fmt.Sprint("new", i)))
	}
	if n := asked() - before; n > 10 {
		t.Errorf("%d lookups for 100 new deliveries", n)
	}
	s.marks.presence = nil
	for i := range 100 {
		b.send(s, named(fmt.Sprint("newer", i)))
	}
	if n := asked() - before; n < 80 {
		t.Errorf("%d lookups without a filter: this test tests nothing", n)
	}
}

func TestANewIncarnationOfAGroupIsNumberedFromOne(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	again := named("a/1")
	again.Incarnation = 2
	b.send(s, named("a/1"), again, again)
	b.want("a/1", "a/1")
}

func TestARedrivenEffectIsWrittenOnceAlthoughALaterOneOfItsGroupWasWrittenBefore(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	redriven, later := named("g/2"), named("g/2")
	redriven.Redriven, later.Redriven = true, true
	later.Incarnation++
	b.send(s, named("g/3"))
	b.send(s, redriven)
	b.send(s, redriven, named("g/1"), named("g/3"), named("g/4"))
	b.want("g/3", "g/2", "g/4")
	b.send(s, later)
	b.want("g/3", "g/2", "g/4", "g/2")
}

func TestARedrivenEffectDoesNotCoverAnEarlierOneOfItsGroup(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	redriven := named("g/2")
	redriven.Redriven = true
	b.send(s, redriven)
	b.send(s, named("g/1"))
	b.want("g/2", "g/1")
}

func TestDifferentNamesNeverMakeTheSameKey(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	one, other := named("bc/1"), named("c/1")
	one.Stream, other.Stream = "a", "ab"
	b.send(s, one, other)
	content, err := os.ReadFile(b.path)
	if err != nil || bytes.Count(content, []byte("\n")) != 2 {
		t.Errorf("%q, %v", content, err)
	}
}

func TestConcurrentSendsOfTheSameDeliveriesWriteEachOnce(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	var senders sync.WaitGroup
	const groups, numbers = 4, 25
	for range 8 {
		senders.Go(func() {
			for n := range numbers {
				var batch []record.Delivery
				for g := range groups {
					batch = append(batch, named(fmt.Sprintf("g%d/%d", g, n+1)), named(fmt.Sprintf("x%d-%d", g, n)))
				}
				for _, err := range s.Send(context.Background(), batch) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	senders.Wait()
	content, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(content), "\n")
	if got, want := len(lines)-1, groups*numbers*2; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
	for g := range groups {
		next := 1
		for _, l := range lines {
			if strings.Contains(l, fmt.Sprintf(`"group":"g%d"`, g)) {
				if l != line(fmt.Sprintf("g%d/%d", g, next)) {
					t.Fatalf("line %q where number %d should be", l, next)
				}
				next++
			}
		}
	}
}

func TestAClosedSenderRefuses(t *testing.T) {
	b := newBench(t)
	s := b.open(Options{})
	b.close(s)
	if errs := s.Send(t.Context(), []record.Delivery{named("x"), named("y")}); len(errs) != 2 || !errors.Is(errs[1], errClosed) {
		t.Errorf("got %v", errs)
	}
}

func TestAFullRoundLeavesTheRestToTheNext(t *testing.T) {
	big := func() *request { return &request{lines: make([]byte, roundBytes-1)} }
	if n := fill([]*request{big(), {lines: []byte("x")}, {lines: []byte("y")}}); n != 2 {
		t.Errorf("%d requests in a round", n)
	}
	if n := fill([]*request{{lines: make([]byte, roundBytes+1)}, {}}); n != 1 {
		t.Errorf("%d requests in a round", n)
	}
}

func TestStdoutWritesTheSameLines(t *testing.T) {
	var out bytes.Buffer
	s := NewStdout(&out)
	for _, err := range s.Send(t.Context(), []record.Delivery{named("a/1"), named("x")}) {
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(line("a/1")+line("x"), out.String()); diff != "" {
		t.Error(diff)
	}
}
