package sessions

import (
	"context"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A Scenario is the input of an exploration. All actors take part from the beginning.
type Scenario struct {
	Name string
	// Entries is how many entries each partition has, besides its end.
	Entries []int
	// Consumers and Operators name the sessions that they open. An operator retires its session. A
	// name may occur several times.
	Consumers, Operators []string
	// Database says that the consumers keep their work and their number in a database. Otherwise
	// the work is the state that Commit writes.
	Database bool
	// Window is the window of the pool; ByPartition and DeadLetters are as in its settings. Every
	// failed try makes a dead letter.
	Window                   uint64
	ByPartition, DeadLetters bool
	// Lost is how many writes lose their answers, before or after they are applied. Late is how
	// many writes are reported as failed and applied later. Fails is how many tries fail.
	Lost, Late, Fails uint8
	// Direct leaves out the actors whose conditional write has failed. The real code then begins
	// its step again with loads, which is the same as if it had loaded later. It may be set only if
	// a scenario without it shows that conflicts are recognised.
	Direct bool
	// Recover is how many stored states there are for each one from which recovery is tried.
	// Defaults to 1.
	Recover int
	// Bound ends the exploration after that many states; 0 means no limit.
	Bound int
}

const stream = "work"

func id(name string) session.ID { return session.ID{Stream: stream, Name: name} }

func now() time.Time { return time.UnixMilli(1_700_000_000_000) }

func (s *Scenario) config() session.Config {
	return session.Config{
		Pools:   map[string]session.Pool{stream: {Partitions: len(s.Entries), Window: s.Window, ByPartition: s.ByPartition, Attempts: 1, DeadLetter: s.DeadLetters}},
		Recalls: true, Now: now, NewID: func() string { return "attempt" }, Pause: func(context.Context, int) error { return nil },
	}
}

// logs returns the records and the chunks of the partitions.
func (s *Scenario) logs() (map[record.GroupKey]record.Group, map[record.GroupKey]record.Chunk) {
	groups, chunks := map[record.GroupKey]record.Group{}, map[record.GroupKey]record.Chunk{}
	for i, n := range s.Entries {
		g := record.Group{Key: session.Partition(stream, uint64(i)), Incarnation: 1, Version: 1}
		var entries []record.Entry
		for number := range n + 1 {
			x := record.Entry{Number: uint64(number) + 1, Kind: record.EntryMessage, Time: clock.Hybrid(number) + 1}
			if number == n {
				x.Kind = record.EntryEnd
			}
			entries = append(entries, x)
		}
		g.Log = record.Log{Last: uint64(len(entries)), Ended: true, Until: now().Add(time.Hour)}
		groups[g.Key], chunks[g.Key] = g, log.Chunks(&g, entries)[0]
	}
	return groups, chunks
}
