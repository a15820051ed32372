package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// MaxSize is how many bytes a configuration file may have.
const MaxSize = 1 << 20

// Config is a whole system, as [Parse] and [Default] give it: checked, every name known.
type Config struct {
	// Streams by name; at least one.
	Streams map[string]Stream `json:"streams" jsonschema:"description=Streams by name: letters and digits and . _ -; at least one."`
	// Destinations by name.
	Destinations map[string]Destination `json:"destinations,omitempty" jsonschema:"description=Destinations by name: where effects go."`
}

// Stream is one named kind of message.
type Stream struct {
	// Admission is how a new message is told from a duplicate. Defaults to key.
	Admission record.Admission `json:"admission,omitempty" jsonschema:"enum=key,enum=token,enum=sequence,default=key,description=How a new message is told from a duplicate."`
	// Order defaults to OrderGroup.
	Order Order `json:"order,omitempty" jsonschema:"enum=group,enum=none,default=group,description=group: messages of one group keep their order. none: they do not and need no group record where the handler keeps no state. Not with sequence admission."`
	// Retention is how long done is remembered. 0 means 15 days.
	Retention Duration `json:"retention,omitempty" jsonschema:"description=How long done is remembered; at least 1s. Default: 15d."`
	// Gap is what happens when a number does not come, under sequence admission.
	Gap Gap `json:"gap,omitzero" jsonschema:"description=What happens when a number does not come. Only with sequence admission."`
	// Held bounds what waits for its predecessors, under sequence admission.
	Held Held `json:"held,omitzero" jsonschema:"description=Bounds on what one source may have waiting in one group. Only with sequence admission."`
	// Limits bound what a group's record remembers.
	Limits Limits `json:"limits,omitzero" jsonschema:"description=Bounds on what the record of one group remembers."`
	// Destinations get every message of the stream from the built-in handler; a Go handler may send to these only.
	Destinations []string `json:"destinations,omitempty" jsonschema:"uniqueItems=true,description=Names of the destinations that the messages are forwarded to."`
}

// Order is what is kept of the order of messages.
type Order string

// The orders.
const (
	OrderGroup Order = "group" // messages of one group keep their order
	OrderNone  Order = "none"  // messages pass one another
)

// Gap is a gap policy.
type Gap struct {
	// Policy defaults to wait.
	Policy record.GapPolicy `json:"policy,omitempty" jsonschema:"enum=wait,enum=skip,enum=fail,default=wait,description=wait: for ever. skip: go on without the number and say so. fail: send what is held to the dead-letter queue."`
	// After is when skip and fail act, counted from the moment the number was first missed. Required for them, forbidden for wait.
	After Duration `json:"after,omitempty" jsonschema:"description=When skip and fail act. Required for them and not allowed for wait."`
}

// Held bounds what one source may have held in one group. Zero fields take the engine's defaults.
type Held struct {
	// Count defaults to 1000 messages.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many messages."`
	// Bytes defaults to 8 MiB of bodies and headers.
	Bytes Size `json:"bytes,omitempty" jsonschema:"default=8MiB,description=How many bytes of bodies and headers."`
	// Distance defaults to 10000 numbers ahead of the next one.
	Distance uint64 `json:"distance,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=10000,description=How far a number may be ahead of the next one."`
}

// Limits bound what the record of one group remembers besides its state, so that no sender can fill it for the others. Zero fields take the engine's defaults.
type Limits struct {
	// Sources defaults to 1000 numbered senders. A message of one more is refused with the reason limit.
	Sources int `json:"sources,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many numbered senders. A message of one more becomes a dead letter with the reason limit."`
	// Targets defaults to 1000 groups of other streams. A message whose effects go to one more is refused with the reason limit.
	Targets int `json:"targets,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many groups of other streams the group's effects go to. A message whose effects go to one more becomes a dead letter with the reason limit."`
	// Names defaults to 32 KiB of names of sources, and as much of targets.
	Names Size `json:"names,omitempty" jsonschema:"default=32KiB,description=How many bytes the names of the senders have together. Those of the targets may have as many."`
	// Ranges defaults to 1000 ranges of held numbers of all senders, and as many of skipped ones. Every sender may have one of each.
	Ranges int `json:"ranges,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many ranges of held numbers all senders have together; as many ranges of skipped numbers are remembered exactly."`
}

// Settings gives the stream as the engine wants it, without a handler.
func (s Stream) Settings(name string) record.Stream {
	return record.Stream{
		Name:      name,
		Admission: s.Admission,
		Unordered: s.Order == OrderNone,
		Retention: s.Retention.Std(),
		Gap:       record.Gap{Policy: s.Gap.Policy, After: s.Gap.After.Std()},
		Bounds:    record.Bounds{Count: s.Held.Count, Bytes: int(s.Held.Bytes), Distance: s.Held.Distance},
		Limits:    record.Limits{Sources: s.Limits.Sources, Targets: s.Limits.Targets, Names: int(s.Limits.Names), Ranges: s.Limits.Ranges},
	}
}

// StreamNames gives the names of the streams, sorted.
func (c *Config) StreamNames() []string { return slices.Sorted(maps.Keys(c.Streams)) }

// DestinationNames gives the names of the destinations, sorted.
func (c *Config) DestinationNames() []string { return slices.Sorted(maps.Keys(c.Destinations)) }

// DefaultFile is where the destination of [Default] writes.
const DefaultFile = ".once/messages.jsonl"

// Default is what a system without a configuration file does: one stream "messages" under key admission, forwarded to [DefaultFile].
func Default() *Config {
	return &Config{
		Streams:      map[string]Stream{"messages": {Admission: record.ByKey, Order: OrderGroup, Destinations: []string{"file"}}},
		Destinations: map[string]Destination{"file": {File: DefaultFile}},
	}
}

// Load reads and checks a file. A missing one gives an error that wraps fs.ErrNotExist.
func Load(path string) (*Config, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}
