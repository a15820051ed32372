package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// MaxSize is the largest size of a configuration file in bytes.
const MaxSize = 1 << 20

// Config is the configuration of a system, as [Parse] and [Default] return it: valid, with every
// reference resolved.
type Config struct {
	// Name is the name of the system for other systems that it sends to. They recognise its
	// messages by it. Required if there is a destination of the kind once.
	Name string `json:"name,omitempty" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,63}$,description=Name of this system for other systems: it must differ from theirs and must not change. Required if a destination is another system."`
	// Streams by name; at least one.
	Streams map[string]Stream `json:"streams" jsonschema:"description=Streams by name: letters and digits and . _ -; at least one."`
	// Destinations by name.
	Destinations map[string]Destination `json:"destinations,omitempty" jsonschema:"description=Destinations by name: where effects go."`
	// Handlers are programs that handle the messages of streams, by the names of the streams. The
	// other streams forward, or have a handler in Go.
	Handlers map[string]Handler `json:"handlers,omitempty" jsonschema:"description=Programs in any language that handle messages: by the name of the stream. A stream without one forwards its messages."`
	// Ingress has the sources by name. On AWS each has a queue of its own.
	Ingress map[string]Ingress `json:"ingress,omitempty" jsonschema:"maxProperties=20,description=Sources by name: AWS services and accounts that send to a stream over a queue of their own. They need no message attributes."`
	// Schedules by name. They send messages at fixed times.
	Schedules map[string]Schedule `json:"schedules,omitempty" jsonschema:"maxProperties=100,description=Schedules by name: messages that are sent to a stream at the times of a cron expression."`
	// Restores are the times at which the tables, or the data folder, were put back to an older
	// copy. Entries are added and never removed or changed.
	Restores Restores `json:"restores,omitempty" jsonschema:"description=When the tables or the data folder were put back to an older copy: the time of each restore in their order. Add entries and remove none; effects then have identities that no receiver knows. A data folder that once restore has put back needs no entry."`
	// DeadLetters bounds the dead letters on one machine.
	DeadLetters DeadLetters `json:"dead_letters,omitzero" jsonschema:"description=How long and how many dead letters are kept on one machine. On AWS the queues keep them for 14d."`
	// Server is nil if the configuration has no settings of a server.
	Server *Server `json:"server,omitempty" jsonschema:"description=Settings of once serve and of package embedded: address and TLS and who may call. once dev and AWS ignore them."`
}

// Restores are times of restores, in their order.
type Restores []time.Time

// DeadLetters bounds the dead letters of each dead-letter queue on one machine. Zero fields take
// the defaults of [DeadLetters.WithDefaults].
type DeadLetters struct {
	// Retain is how long a dead letter is kept after its message was last refused.
	Retain Duration `json:"retain,omitempty" jsonschema:"description=How long a dead letter is kept after its message was last refused; at least 1s. Default: 14d."`
	// Most is how many dead letters a queue keeps. Beyond it the oldest ones of the stream with the most
	// are dropped.
	Most int `json:"most,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=100000,description=How many dead letters each of the two queues keeps; beyond it the oldest ones of the stream with the most are dropped."`
}

// WithDefaults returns d with 14 days, the retention of the queues on AWS, and 100,000 dead letters
// a queue: their index takes about 20 MB of memory, and a listing reads them in seconds.
func (d DeadLetters) WithDefaults() DeadLetters {
	return DeadLetters{Retain: cmp.Or(d.Retain, Duration(14*24*time.Hour)), Most: cmp.Or(d.Most, 100_000)}
}

// Stream is one named kind of message.
type Stream struct {
	// Admission is the rule that distinguishes a new message from a duplicate. Defaults to key.
	Admission record.Admission `json:"admission,omitempty" jsonschema:"enum=key,enum=token,enum=sequence,default=key,description=How a new message is told from a duplicate."`
	// Order defaults to OrderGroup.
	Order Order `json:"order,omitempty" jsonschema:"enum=group,enum=none,default=group,description=group: messages of one group keep their order. none: they do not and need no group record where the handler keeps no state. Not with sequence admission."`
	// Retention is how long a done token is kept. 0 means 15 days.
	Retention Duration `json:"retention,omitempty" jsonschema:"description=How long done is remembered; at least 1s. Default: 15d."`
	// State is the policy for the states of the stream's groups.
	State State `json:"state,omitzero" jsonschema:"description=How long the state of a group is kept."`
	// Retry is the policy for messages whose handler fails.
	Retry Retry `json:"retry,omitzero" jsonschema:"description=How messages are retried whose handler fails. Defaults: first 1s; max 5m; for 24h."`
	// Gap is the policy for a missing number, under sequence admission, and for a missing parent.
	Gap Gap `json:"gap,omitzero" jsonschema:"description=What happens when a number or a parent does not come. Only with sequence admission or a log."`
	// Held limits the held messages, under sequence admission.
	Held Held `json:"held,omitzero" jsonschema:"description=Bounds on what one source may have waiting in one group. Only with sequence admission."`
	// Limits bound the names and ranges in a group's record.
	Limits Limits `json:"limits,omitzero" jsonschema:"description=Bounds on what the record of one group remembers."`
	// Log keeps the commits of each group for readers. If it is nil, the stream has no logs.
	Log *Log `json:"log,omitempty" jsonschema:"description=Keeps a log of each group that can be read: every processed message or what its handler appends."`
	// Pool deals the entries of the stream out to sessions. If it is nil, the stream has no pool.
	Pool *Pool `json:"pool,omitempty" jsonschema:"description=Deals the entries of the stream out to sessions: each entry to exactly one. The stream has a log then; and partitions in place of its senders' groups. Its destinations get one message when the stream has ended."`
	// Direct says that the HTTP API processes messages itself, without the queue, if it can. If it
	// is nil, an embedded system does so unless the stream can send to a webhook, and the functions
	// do not.
	Direct *bool `json:"direct,omitempty" jsonschema:"description=Whether the HTTP API processes messages itself and uses the queue only for those that it could not process. Default: true in an embedded system unless a destination is a webhook; false on AWS."`
	// Destinations receive every message of the stream from the built-in handler; another handler
	// may send to these only.
	Destinations []string `json:"destinations,omitempty" jsonschema:"uniqueItems=true,description=Names of the destinations that the messages are forwarded to."`
}

// Order is the order in which messages are processed.
type Order string

// The orders.
const (
	OrderGroup Order = "group" // messages of one group keep their order
	OrderNone  Order = "none"  // messages may overtake each other
)

// Retry is a policy for what fails. Zero fields take the defaults of a stream or a destination.
type Retry struct {
	// First is the longest pause after the first try.
	First Duration `json:"first,omitempty" jsonschema:"description=The longest pause after the first try; it doubles with every further one. Default: 1s."`
	// Max is the longest pause.
	Max Duration `json:"max,omitempty" jsonschema:"description=The longest pause; at most 11h. Default: 5m for a stream and 10m for a destination."`
	// For is how long failed tries are repeated before a dead letter is written.
	For Duration `json:"for,omitempty" jsonschema:"description=How long failed tries are repeated before the message or effect becomes a dead letter; at most 13d. Default: 24h for a stream and 72h for a destination."`
}

// Std returns the policy in the engine's form.
func (r Retry) Std() record.RetryPolicy {
	return record.RetryPolicy{First: r.First.Std(), Max: r.Max.Std(), For: r.For.Std()}
}

// MaxTries returns how many deliveries the ingress queues allow, so that no policy of the
// configuration reaches the limit in its time. An effect of a message without a group record is
// retried with its message.
func (c *Config) MaxTries() int {
	tries := max(record.MessageRetry().Tries(), record.EffectRetry().Tries())
	for _, s := range c.Streams {
		tries = max(tries, s.Retry.Std().Or(record.MessageRetry()).Tries())
	}
	for _, d := range c.Destinations {
		tries = max(tries, d.Retry.Std().Or(record.EffectRetry()).Tries())
	}
	return tries
}

// Gap is a gap policy.
type Gap struct {
	// Policy defaults to wait.
	Policy record.GapPolicy `json:"policy,omitempty" jsonschema:"enum=wait,enum=skip,enum=fail,default=wait,description=wait: for ever. skip: go on without the number and say so. fail: send what is held to the dead-letter queue."`
	// After is when skip and fail act, counted from the moment when the number was first missed. It
	// is required for them and forbidden for wait.
	After Duration `json:"after,omitempty" jsonschema:"description=When skip and fail act. Required for them and not allowed for wait."`
}

// Held limits the held messages of one source in one group. Zero fields take the engine's defaults.
type Held struct {
	// Count defaults to 1000 messages.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many messages."`
	// Bytes defaults to 8 MiB of bodies and headers.
	Bytes Size `json:"bytes,omitempty" jsonschema:"default=8MiB,description=How many bytes of bodies and headers."`
	// Distance defaults to 10000 numbers ahead of the next one.
	Distance uint64 `json:"distance,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=10000,description=How far a number may be ahead of the next one."`
}

// Limits bound the parts of a group record besides its state, so that one sender can't fill it for
// all others. Zero fields take the engine's defaults.
type Limits struct {
	// Sources defaults to 1000 numbered senders. Messages of further ones are refused with the
	// reason limit.
	Sources int `json:"sources,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many numbered senders. A message of one more becomes a dead letter with the reason limit."`
	// Targets defaults to 1000 groups of other streams. A message with effects for further ones is
	// refused with the reason limit.
	Targets int `json:"targets,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many groups of other streams the group's effects go to. A message whose effects go to one more becomes a dead letter with the reason limit."`
	// Names defaults to 32 KiB for the names of sources, and the same for those of targets.
	Names Size `json:"names,omitempty" jsonschema:"default=32KiB,description=How many bytes the names of the senders have together. Those of the targets may have as many."`
	// Ranges defaults to 1000 ranges of held numbers of all senders, and as many of skipped ones.
	// Every sender may have one of each.
	Ranges int `json:"ranges,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many ranges of held numbers all senders have together; as many ranges of skipped numbers are remembered exactly."`
}

// State is the policy for the states that a stream's handler gives its groups.
type State struct {
	// Retain is how long a state outlives the last message of its group. 0 means [Forever].
	Retain Duration `json:"retain,omitempty" jsonschema:"description=How long the state of a group and all that it remembers outlive its last message: forever (until the handler deletes the state) or a time of at least 30d and not shorter than retention and log.retain. Default: forever."`
}

// Log is the policy for the logs of a stream's groups.
type Log struct {
	// Retain is how long an entry can be read. 0 means [record.DefaultLogRetention], and in a
	// stream with a pool [record.DefaultPoolRetention].
	Retain Duration `json:"retain,omitempty" jsonschema:"description=How long an entry can be read; at least 1s. Default: 7d; 30d with a pool."`
}

// Pool is the policy for dealing the entries of a stream out to sessions.
type Pool struct {
	// Partitions is how many logs the stream has. 0 means the default of the system: 1 if it is
	// embedded, 8 on AWS.
	Partitions int `json:"partitions,omitempty" jsonschema:"minimum=1,maximum=256,description=How many logs the stream has; the hash of a message's group or id chooses one. It can't be changed once the stream has messages. Default: 1 in an embedded system; 8 on AWS."`
	// Window is how many unprocessed entries a session may have. 0 means 1000.
	Window uint64 `json:"window,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=1000,description=How many entries a session may have that it has not processed; 1 makes sessions take turns."`
	// Deal defaults to DealRange.
	Deal Deal `json:"deal,omitempty" jsonschema:"enum=range,enum=partition,default=range,description=range: each session gets entries of all partitions. partition: a partition belongs to one session so that its order is kept."`
	// Attempts is how many tries of one entry may fail. 0 means 5.
	Attempts uint64 `json:"attempts,omitempty" jsonschema:"minimum=1,maximum=1000000000,default=5,description=How many tries of one entry may fail before the action of poison."`
	// Poison defaults to PoisonStop.
	Poison Poison `json:"poison,omitempty" jsonschema:"enum=stop,enum=dead-letter,default=stop,description=What follows the last failed try of an entry. stop: its consumer stops and the entry stays. dead-letter: the entry becomes a dead letter and the session continues."`
}

// Deal is the way in which a pool deals entries out.
type Deal string

// The ways.
const (
	DealRange     Deal = "range"     // every session gets ranges of all partitions
	DealPartition Deal = "partition" // a partition belongs to one session
)

// Poison is what follows the last failed try of an entry.
type Poison string

// The actions.
const (
	PoisonStop       Poison = "stop"        // the consumer stops, and the entry stays
	PoisonDeadLetter Poison = "dead-letter" // the entry becomes a dead letter
)

// logRetention returns how long an entry can be read, or 0 if there are no logs.
func (s Stream) logRetention() time.Duration {
	switch l := s.log(); {
	case l == nil:
		return 0
	case s.Pool != nil:
		return cmp.Or(l.Retain.Std(), record.DefaultPoolRetention)
	default:
		return cmp.Or(l.Retain.Std(), record.DefaultLogRetention)
	}
}

// log returns the policy for the stream's logs. A stream with a pool always has logs.
func (s Stream) log() *Log {
	if s.Log == nil && s.Pool != nil {
		return &Log{}
	}
	return s.Log
}

// Settings returns the stream in the engine's form, without a handler.
func (s Stream) Settings(name string) record.Stream {
	return record.Stream{
		Name:      name,
		Admission: s.Admission,
		Unordered: s.Order == OrderNone,
		Retention: s.Retention.Std(),
		Retry:     s.Retry.Std(),
		Gap:       record.Gap{Policy: s.Gap.Policy, After: s.Gap.After.Std()},
		Bounds:    record.Bounds{Count: s.Held.Count, Bytes: int(s.Held.Bytes), Distance: s.Held.Distance},
		Limits:    record.Limits{Sources: s.Limits.Sources, Targets: s.Limits.Targets, Names: int(s.Limits.Names), Ranges: s.Limits.Ranges},

		StateRetention: record.ReadRetention(s.State.Retain.Std()),
		LogRetention:   s.logRetention(),
	}
}

// StreamNames returns the names of the streams, sorted.
func (c *Config) StreamNames() []string { return slices.Sorted(maps.Keys(c.Streams)) }

// DestinationNames returns the names of the destinations, sorted.
func (c *Config) DestinationNames() []string { return slices.Sorted(maps.Keys(c.Destinations)) }

// DefaultFile is the path of the destination of [Default].
const DefaultFile = ".once/messages.jsonl"

// Default returns the configuration of a system without a configuration file: one stream "messages"
// under key admission, forwarded to [DefaultFile].
func Default() *Config {
	return &Config{
		Streams:      map[string]Stream{"messages": {Admission: record.ByKey, Order: OrderGroup, Destinations: []string{"file"}}},
		Destinations: map[string]Destination{"file": {File: DefaultFile}},
	}
}

// Load reads and checks a file. If the file is missing, the error wraps fs.ErrNotExist.
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
