package file

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestAnIdentityIsRememberedAsLongAsItsDeliverySays(t *testing.T) {
	b := newBench(t)
	now := time.UnixMilli(1_000_000)
	s := b.open(Options{Now: func() time.Time { return now }})
	short, other := named("x"), named("y")
	short.Retention, other.Retention = time.Minute, time.Hour
	b.send(s, short, named("a/1"), other)
	now = now.Add(time.Minute)
	b.send(s, short, named("a/1"), other)
	content, err := os.ReadFile(b.path)
	if want := line("x") + line("a/1") + string(appendLine(nil, &other)) + line("x"); err != nil || string(content) != want {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestMarksExpireAfterTheRetention(t *testing.T) {
	b := newBench(t)
	now := time.UnixMilli(1_000_000)
	s := b.open(Options{Retention: time.Hour, Now: func() time.Time { return now }})
	b.send(s, named("a/1"), named("b/1"), named("x"))
	now = now.Add(time.Hour - time.Millisecond)
	b.send(s, named("a/2"), named("x"))
	if n, err := s.Expire(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("expired %d, %v", n, err)
	}
	now = now.Add(time.Millisecond)
	for _, want := range []int{1, 1, 0} {
		if n, err := s.Expire(t.Context(), 1); n != want || err != nil {
			t.Errorf("expired %d, %v; want %d", n, err, want)
		}
	}
	b.send(s, named("a/1"), named("a/2"), named("x"))
	b.want("a/1", "b/1", "x", "a/2", "x")
}

func TestExpireWalksThroughAllMarksInParts(t *testing.T) {
	b := newBench(t)
	now := time.UnixMilli(1_000_000)
	s := b.open(Options{Retention: time.Hour, Now: func() time.Time { return now }})
	for i := range walkFactor {
		b.send(s, named(fmt.Sprintf("a%d/1", i)))
	}
	now = now.Add(time.Minute)
	b.send(s, named("z/1"), named("z/2"))
	for i := range walkFactor {
		b.send(s, named(fmt.Sprintf("a%d/2", i)))
	}
	now = now.Add(time.Hour - 1)
	b.send(s, named("x"))
	now = now.Add(1)
	deleted := 0
	for range 2 * (walkFactor + 1) {
		n, err := s.Expire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		deleted += n
	}
	if want := walkFactor + 1; deleted != want {
		t.Errorf("deleted %d, want %d", deleted, want)
	}
}

func TestAnExpiredMarkReadsAsAbsentBeforeItIsDeleted(t *testing.T) {
	b := newBench(t)
	now := time.UnixMilli(1_000_000)
	s := b.open(Options{Retention: time.Hour, Now: func() time.Time { return now }})
	b.send(s, named("x"))
	now = now.Add(time.Hour)
	b.send(s, named("x"))
	if n, err := s.Expire(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("expired %d marks that were written again, %v", n, err)
	}
	b.want("x", "x")
}
