package once

import (
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// Admission is how a stream tells a new message from a duplicate.
type Admission string

// The three proofs that a message is new.
const (
	// ByKey: no token says that its identity is done. Remembers for the retention.
	ByKey Admission = "key"
	// ByToken: a token was issued for it before, and is not done. An identity without a token is never processed, however old it is.
	ByToken Admission = "token"
	// BySequence: its number is the next of its source. The cheapest.
	BySequence Admission = "sequence"
)

// Order is what the messages of one group may do to one another.
type Order string

// The orders.
const (
	// OrderGroup: they are processed in the order in which they come, one at a time.
	OrderGroup Order = "group"
	// OrderNone: they may pass one another.
	OrderNone Order = "none"
)

// GapPolicy is what happens when the next number of a source does not come.
type GapPolicy string

// The gap policies.
const (
	GapWait GapPolicy = "wait" // for ever
	GapSkip GapPolicy = "skip" // go on without it, and say so
	GapFail GapPolicy = "fail" // refuse what is held, with the reason
)

// A StreamConfig says how a stream works. A zero field means what the system's configuration file says of the stream, and the default where it says nothing.
type StreamConfig struct {
	// Admission defaults to ByKey.
	Admission Admission
	// Order defaults to OrderGroup.
	Order Order
	// Retention is how long a done message is remembered. Defaults to 15 days.
	Retention time.Duration
	// GroupRetention is how long a group's state outlives its last message. Defaults to 30 days.
	GroupRetention time.Duration
	// Gap is the policy for missing numbers, and GapAfter the time after which it acts. Default to GapWait, which needs no time.
	Gap      GapPolicy
	GapAfter time.Duration
	// HeldCount, HeldBytes and HeldDistance bound what one source may have waiting for its predecessors in one group; what goes beyond is put back, not
	// dropped. Default to 1000 messages, 8 MiB, and 10000 numbers ahead.
	HeldCount    int
	HeldBytes    int
	HeldDistance uint64
	// Destinations are those that the handler sends to, and those that messages are forwarded to where no handler is registered. A system does not start
	// where one does not exist, and an attempt that sends elsewhere fails. They are told of skipped numbers, too. Where they are empty, the attempt does not
	// check them.
	Destinations []string
}

// stream is the config as a backend takes it, without a handler.
func (c StreamConfig) stream(name string) system.Stream {
	return system.Stream{
		Stream: record.Stream{
			Name:           name,
			Admission:      record.Admission(c.Admission),
			Unordered:      c.Order == OrderNone,
			Retention:      c.Retention,
			GroupRetention: c.GroupRetention,
			Gap:            record.Gap{Policy: record.GapPolicy(c.Gap), After: c.GapAfter},
			Bounds:         record.Bounds{Count: c.HeldCount, Bytes: c.HeldBytes, Distance: c.HeldDistance},
		},
		Ordered:      c.Order == OrderGroup,
		Destinations: c.Destinations,
	}
}

// validate gives the first rule that the config breaks.
func (c StreamConfig) validate() error {
	switch {
	case !oneOf(c.Admission, "", ByKey, ByToken, BySequence):
		return invalid("Admission", "must be ByKey, ByToken or BySequence")
	case !oneOf(c.Order, "", OrderGroup, OrderNone):
		return invalid("Order", "must be OrderGroup or OrderNone")
	case !oneOf(c.Gap, "", GapWait, GapSkip, GapFail):
		return invalid("Gap", "must be GapWait, GapSkip or GapFail")
	case oneOf(c.Gap, GapSkip, GapFail) && c.GapAfter <= 0:
		return invalid("GapAfter", "must be given with GapSkip and GapFail")
	case c.Retention < 0 || c.GroupRetention < 0 || c.GapAfter < 0:
		return invalid("Retention, GroupRetention and GapAfter", "must not be negative")
	case c.HeldCount < 0 || c.HeldBytes < 0:
		return invalid("HeldCount and HeldBytes", "must not be negative")
	}
	return nil
}

func oneOf[T comparable](value T, values ...T) bool { return slices.Contains(values, value) }

func invalid(field, rule string) error { return &record.InvalidError{Field: field, Rule: rule} }
