package once

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// Admission is the rule by which a stream distinguishes a new message from a duplicate.
type Admission string

// The three proofs that a message is new.
const (
	// ByKey: no token says that the identity is done. Tokens are kept for the retention.
	ByKey Admission = "key"
	// ByToken: a token was issued before, and is not done. An identity without a token is never
	// processed, whatever its age.
	ByToken Admission = "token"
	// BySequence: its number is the next of its source. The cheapest rule.
	BySequence Admission = "sequence"
)

// Order is the order in which the messages of one group are processed.
type Order string

// The orders.
const (
	// OrderGroup: in the order of arrival, one at a time.
	OrderGroup Order = "group"
	// OrderNone: messages may overtake each other.
	OrderNone Order = "none"
)

// GapPolicy is the action if the next number of a source does not arrive.
type GapPolicy string

// The gap policies.
const (
	GapWait GapPolicy = "wait" // wait for ever
	GapSkip GapPolicy = "skip" // continue without it, and report it
	GapFail GapPolicy = "fail" // refuse the held messages, with the reason
)

// A StreamConfig configures a stream. A zero field means the value in the system's configuration
// file, or the default if the file does not set it.
type StreamConfig struct {
	// Admission defaults to ByKey.
	Admission Admission
	// Order defaults to OrderGroup.
	Order Order
	// Retention is how long a done message is remembered. Defaults to 15 days.
	Retention time.Duration
	// GroupRetention is how long the record of a group without state outlives its last message: it
	// knows the numbers of its senders, and those of its effects. Defaults to 30 days.
	GroupRetention time.Duration
	// StateRetention is how long a group's state outlives its last message, with all that the
	// group remembers. It must not be shorter than GroupRetention or Retention. By default a state
	// is kept until the handler deletes it, by setting the zero value.
	StateRetention time.Duration
	// Upgrade returns a stored state in the form of the handler's type, as after a field was
	// renamed. It runs before each attempt on a state that has a field which the type does not
	// have, or does not fit the type; so it also gets states of newer programs, and returns those
	// as they are. It must depend on its argument only. If the state can't be read after that, or
	// if Upgrade returns an error, the group waits: its messages are retried, and do not become
	// dead letters. Defaults to no change.
	Upgrade func(old json.RawMessage) (json.RawMessage, error)
	// Retry is the policy for messages whose handler fails: the pauses between tries, and how long
	// tries are repeated until the message becomes a dead letter with the reason "attempts". On AWS
	// the ingress queues get their limit of deliveries from the configuration file: a policy with
	// more tries than those of the file needs the prop MaxReceives of the construct too.
	Retry RetryPolicy
	// Timeout is how long one attempt may take: then its context ends, and if the handler fails,
	// the message is retried. From 100 ms to 15 minutes; defaults to 10 s. On AWS it has to be the
	// one in the configuration file, where the deployment checks that it fits into the functions.
	Timeout time.Duration
	// Concurrency is how many attempts of the stream run in one process at a time, up to 10000.
	// Messages beyond it wait. Defaults to 64.
	Concurrency int
	// Gap is the policy for missing numbers, and GapAfter the time after which it acts. Defaults to
	// GapWait, which needs no time.
	Gap      GapPolicy
	GapAfter time.Duration
	// HeldCount, HeldBytes and HeldDistance limit the messages of one source that wait for their
	// predecessors in one group. Messages beyond the limits are put back on their queue, not
	// dropped. Default to 1000 messages, 8 MiB, and 10000 numbers ahead.
	HeldCount    int
	HeldBytes    int
	HeldDistance uint64
	// LogRetention is how long the log of a group can be read: its entries are what handlers
	// append (see [Attempt.Append]), or every message if no handler is registered. The record of a
	// group is kept at least as long. If neither it nor the configuration file sets a time, there
	// are no logs.
	LogRetention time.Duration
	// Destinations are the destinations to which the handler sends, and to which messages are
	// forwarded if no handler is registered. They also receive messages about skipped numbers. If
	// one of them does not exist, the system does not start; if an attempt sends elsewhere, it
	// fails. If Destinations is empty, attempts are not checked.
	Destinations []string
}

// A RetryPolicy is a policy for what fails. The pause after try n is drawn between First/2 and
// First·2^(n-1), but at most Max. Zero fields take the values of the configuration file, or else
// the defaults: First 1 s, Max 5 minutes, For 24 hours. First and Max are at most 11 hours, For at
// most 13 days.
//
// A message is tried at least five times, however old it is.
type RetryPolicy struct {
	First, Max time.Duration
	// For is how long failed tries are repeated, from when the queue got the message; after a
	// redrive, the time starts again.
	For time.Duration
}

// stream returns the config in the form of a backend, without a handler.
func (c StreamConfig) stream(name string) system.Stream {
	return system.Stream{
		Stream: record.Stream{
			Name:           name,
			Admission:      record.Admission(c.Admission),
			Unordered:      c.Order == OrderNone,
			Retention:      c.Retention,
			GroupRetention: c.GroupRetention,
			StateRetention: c.StateRetention,
			Retry:          record.RetryPolicy{First: c.Retry.First, Max: c.Retry.Max, For: c.Retry.For},
			Timeout:        c.Timeout,
			Concurrency:    c.Concurrency,
			Gap:            record.Gap{Policy: record.GapPolicy(c.Gap), After: c.GapAfter},
			Bounds:         record.Bounds{Count: c.HeldCount, Bytes: c.HeldBytes, Distance: c.HeldDistance},
			LogRetention:   c.LogRetention,
		},
		Ordered:      c.Order == OrderGroup,
		Destinations: c.Destinations,
	}
}

// validate returns an error for the first rule that the config breaks.
func (c StreamConfig) validate() error {
	least := max(c.Retention, cmp.Or(c.GroupRetention, record.DefaultGroupRetention), c.LogRetention)
	switch {
	case !oneOf(c.Admission, "", ByKey, ByToken, BySequence):
		return invalid("Admission", "must be ByKey, ByToken or BySequence")
	case !oneOf(c.Order, "", OrderGroup, OrderNone):
		return invalid("Order", "must be OrderGroup or OrderNone")
	case !oneOf(c.Gap, "", GapWait, GapSkip, GapFail):
		return invalid("Gap", "must be GapWait, GapSkip or GapFail")
	case oneOf(c.Gap, GapSkip, GapFail) && c.GapAfter <= 0:
		return invalid("GapAfter", "must be given with GapSkip and GapFail")
	case min(c.Retention, c.GroupRetention, c.StateRetention, c.LogRetention, c.GapAfter) < 0:
		return invalid("Retention, GroupRetention, StateRetention, LogRetention and GapAfter", "must not be negative")
	case c.StateRetention > 0 && c.StateRetention < least:
		return invalid("StateRetention", "must be at least "+least.String()+": the longest of Retention, GroupRetention and LogRetention")
	case c.Retry.First < 0 || c.Retry.Max < 0 || c.Retry.For < 0:
		return invalid("Retry", "must not be negative")
	case c.Retry.Max > 0 && c.Retry.First > c.Retry.Max:
		return invalid("Retry.First", "must be at most Max")
	case max(c.Retry.First, c.Retry.Max) > record.MaxPause:
		return invalid("Retry.First and Retry.Max", "must be at most "+record.MaxPause.String()+", because SQS hides a message for at most 12h")
	case c.Retry.For > record.MaxRetry:
		return invalid("Retry.For", "must be at most "+record.MaxRetry.String()+", because a queue keeps a message for 14 days")
	case c.Timeout != 0 && (c.Timeout < record.MinTimeout || c.Timeout > record.MaxTimeout):
		return invalid("Timeout", "must be between "+record.MinTimeout.String()+" and "+record.MaxTimeout.String())
	case c.Concurrency < 0 || c.Concurrency > record.MaxConcurrency:
		return invalid("Concurrency", "must be between 1 and "+strconv.Itoa(record.MaxConcurrency))
	case c.HeldCount < 0 || c.HeldBytes < 0:
		return invalid("HeldCount and HeldBytes", "must not be negative")
	}
	return nil
}

func oneOf[T comparable](value T, values ...T) bool { return slices.Contains(values, value) }

func invalid(field, rule string) error { return &record.InvalidError{Field: field, Rule: rule} }
