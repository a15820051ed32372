package sessions

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A Scenario is the input of an exploration. All actors take part from the beginning.
type Scenario struct {
	Name string
	// Entries is how many entries each partition has, besides its end.
	Entries []int
	// Consumers, Operators and Skippers name the sessions that they open. An operator retires its
	// session, and a skipper skips one of its entries. A name may occur several times.
	Consumers, Operators, Skippers []string
	// Enders is how many callers end the stream, and Sweepers how many sweeps run beside them.
	Enders, Sweepers int
	// Queued says that the entries are still on the queues of their partitions. They are appended
	// at any time, and the end behind them once it is sent; that of a group is sent. Otherwise the
	// logs are complete and ended from the beginning.
	Queued bool
	// OfGroup says that the sessions read the log of one group, not a pool. Again says that this
	// log may begin again, at any time.
	OfGroup, Again bool
	// Database says that the consumers keep their work and their number in a database. Otherwise
	// the work is the state that Commit writes.
	Database bool
	// Restored says that the database is backed up at any time and restored at any later time.
	// Consumers and operators die then, and begin again; there are no operators before.
	Restored bool
	// Ahead is a number that the database has of the first life of the first consumer's session.
	Ahead uint64
	// Free says that consumers wait for a lease, and release their session when they stop.
	// Otherwise everybody takes a session at any time.
	Free bool
	// Ages is how often time passes, in which the records of retired sessions are forgotten. It is
	// longer than a transaction of the database can last.
	Ages uint8
	// Window is the window of the pool; ByPartition, DeadLetters and Ranges are as in its settings.
	// Every failed try makes a dead letter.
	Window                   uint64
	ByPartition, DeadLetters bool
	Ranges                   int
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

// groupName is the group whose log is read if there is no pool.
const groupName = "g"

func (s *Scenario) id(name string) session.ID {
	if s.OfGroup {
		return session.ID{Stream: stream, Group: groupName, Name: name}
	}
	return session.ID{Stream: stream, Name: name}
}

// start is the time at the beginning.
func start() time.Time { return time.UnixMilli(1_700_000_000_000) }

// age is a time in which records of retired sessions are forgotten.
const age = 1000 * time.Hour

func (s *Scenario) config() session.Config {
	cfg := session.Config{Recalls: true, Ranges: s.Ranges, NewID: func() string { return "attempt" }, Pause: func(context.Context, int) error { return nil }}
	if !s.OfGroup {
		pool := session.Pool{Partitions: len(s.Entries), Window: s.Window, ByPartition: s.ByPartition, Attempts: 1, DeadLetter: s.DeadLetters}
		if s.Enders > 0 {
			pool.Destinations = []string{"out"}
		}
		cfg.Pools = map[string]session.Pool{stream: pool}
	}
	return cfg
}

// A role is the part that an actor plays.
type role struct {
	title string
	name  string // of the session
	// database says that the actor ends when the database is restored, and begins again. late says
	// that it does not begin before.
	database, late bool
	play           func(a *actor)
}

// cast returns the roles of the actors.
func (s *Scenario) cast() (out []role) {
	for _, name := range s.Consumers {
		out = append(out, role{title: "consumer of " + name, name: name, database: true, play: func(a *actor) { _, _ = a.consume() }})
	}
	for _, name := range s.Operators {
		out = append(out, role{title: "operator of " + name, name: name, database: true, late: s.Restored, play: (*actor).retire})
	}
	for _, name := range s.Skippers {
		out = append(out, role{title: "skipper of " + name, name: name, database: true, late: s.Restored, play: (*actor).skip})
	}
	for range s.Enders {
		out = append(out, role{title: "ender", play: (*actor).end})
	}
	for range s.Sweepers {
		out = append(out, role{title: "sweep", play: (*actor).sweep})
	}
	return out
}

// moves reports whether the logs change.
func (s *Scenario) moves() bool { return s.Queued || s.Again }

// logKey returns the key of a log.
func (s *Scenario) logKey(i int) record.GroupKey {
	if s.OfGroup {
		return record.GroupKey{Stream: stream, Group: groupName}
	}
	return session.Partition(stream, uint64(i)) //nolint:gosec // not negative
}
