package record

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Admission is the rule by which a stream distinguishes a new message from a duplicate.
type Admission string

// The three proofs that a message is new.
const (
	ByKey      Admission = "key"      // no token says done
	ByToken    Admission = "token"    // a token was issued and is not done
	BySequence Admission = "sequence" // its number is the next of its source
)

// A Stream is a named kind of message.
type Stream struct {
	Name string
	// Admission defaults to ByKey.
	Admission Admission
	// Handler runs for every new message. A stream has either Handler or Batch.
	Handler Handler
	// Batch runs for the new messages of a group together, up to BatchSize of them. Such a stream
	// must be neither Stateless nor have Partitions.
	Batch BatchHandler
	// BatchSize is the largest number of messages for one call of Batch. Defaults to
	// [DefaultBatchSize].
	BatchSize int
	// Timeout is how long one attempt of the handler may take, and Concurrency how many run in one
	// process at a time; 0 for a stream that forwards. The engine does not use them: the handler
	// bounds itself, and what calls the engine waits for as long.
	Timeout     time.Duration
	Concurrency int
	// Stateless promises that Handler neither reads nor writes the group's state.
	Stateless bool
	// Unordered allows messages of one group to pass one another. If Stateless is set too, they
	// need no group record.
	Unordered bool
	// Retention is how long a done token is kept. Defaults to [DefaultRetention].
	Retention time.Duration
	// GroupRetention is how long a group record without state outlives its last message, and in a
	// partition how long a source does. Defaults to 30 days: 14 in a queue and 14 in its
	// dead-letter queue.
	GroupRetention time.Duration
	// StateRetention is how long a group record with state outlives its last message: at least
	// GroupRetention and Retention, or 0 for ever. It counts for a state that an earlier handler
	// left, too.
	StateRetention time.Duration
	// LogState reports whether a state belongs to the log of its group: then its record is kept as
	// one without state. Nil means that none does.
	LogState func(state []byte) bool
	// Retry is the policy for messages that fail. Zero fields take those of [MessageRetry]. The
	// engine does not use it: the function behind the queue does.
	Retry RetryPolicy
	// Gap is the policy for a missing number of a source, and for a missing parent of a message.
	Gap Gap
	// Bounds limit the held messages of one source in one group. A stream with partitions has none.
	Bounds Bounds
	// Limits bound the names and ranges in the group's record. The ranges of a stream with
	// partitions default to [DefaultPartitionRanges].
	Limits Limits
	// Events lists the destinations that receive a message about skipped numbers.
	Events []string
	// LogRetention is how long the entries of the groups' logs can be read; 0 for no logs. A group
	// record is kept at least as long.
	LogRetention time.Duration
	// LogMessages appends every processed message to the log of its group, before the entries of
	// its handler.
	LogMessages bool
	// Partitions is how many logs a stream with a pool has. Its messages are placed in them, see
	// [Stream.Place]. It is 0 for other streams, which have a log for each group. It can't be
	// changed as long as messages are remembered, because the records of their groups are those of
	// the partitions.
	Partitions uint64
	// MaxBody is the largest body that the destinations of the stream take. Defaults to the largest
	// one that the system holds. See [Stream.BodyLimit] and [Streams.Limit].
	MaxBody int
	// KeepDone is set by [Streams.KeepDone]: the group record takes the place of the done token of
	// a message whose group is named by its id.
	KeepDone bool
}

// BodyLimit returns the largest body of a message of the stream. A numbered message may be held,
// and a log keeps its messages, so in these streams a body has to fit into one record of every
// store.
func (s Stream) BodyLimit() int {
	if s.Admission == BySequence || s.LogRetention > 0 || s.Partitions > 0 {
		return SmallBody
	}
	return cmp.Or(s.MaxBody, SmallBody)
}

// BodyLimitOf is [Stream.BodyLimit] for one message. A one-time request is kept in a record until
// it has run.
func (s Stream) BodyLimitOf(m *Message) int {
	if m.Route != "" {
		return min(SmallBody, s.BodyLimit())
	}
	return s.BodyLimit()
}

// CheckBody returns an [*InvalidError] if the body of a message is larger than the stream takes.
func (s Stream) CheckBody(m *Message) error {
	if most := s.BodyLimitOf(m); len(m.Body) > most {
		return &InvalidError{"body", fmt.Sprintf("must be at most %d bytes in this stream", most)}
	}
	return nil
}

// MaxKept is the largest reply of a kept entry, in bytes. A larger reply is stored with a token, so
// that each write of the group record does not pay for it.
const MaxKept = 16 << 10

// Keeps reports whether the group record takes the place of the done token of a pending entry: its
// group is named by the id of its message.
func (s Stream) Keeps(key GroupKey, p *Pending) bool {
	return s.KeepDone && p.Marks && !ofRequest(p.Attempt) && p.Reply.Size() <= MaxKept && p.Token == NewTokenKey(p.Principal, key.Stream, key.Group)
}

// The defaults and limits of Timeout and Concurrency.
const (
	DefaultTimeout     = 10 * time.Second
	MinTimeout         = 100 * time.Millisecond
	MaxTimeout         = 15 * time.Minute // of a Lambda function
	DefaultConcurrency = 64
	MaxConcurrency     = 10_000
)

// DefaultPoolRetention is DefaultLogRetention for a stream with a pool. It is longer, because an
// entry that expires before a session has read it is lost.
const DefaultPoolRetention = 30 * 24 * time.Hour

// IssuedRetention is how long an issued token is kept for its message: longer than 14 days in a
// queue and 14 in its dead-letter queue.
const IssuedRetention = 30 * 24 * time.Hour

// DefaultGroupRetention is how long a group record without state outlives its last message.
const DefaultGroupRetention = 30 * 24 * time.Hour

// DefaultLogRetention is how long the entries of a log can be read if its stream does not say it.
const DefaultLogRetention = 7 * 24 * time.Hour

// DefaultPartitionRanges is how many ranges of held numbers a partition tracks: it has the sources
// of many groups, and a message beyond the limit is refused.
const DefaultPartitionRanges = 20_000

// GapPolicy is the engine's action when a number or a parent does not arrive.
type GapPolicy string

// The gap policies.
const (
	GapWait GapPolicy = "wait" // wait for ever
	GapSkip GapPolicy = "skip" // continue without it, and report it
	GapFail GapPolicy = "fail" // dead-letter the messages that wait
)

// A Gap is a policy and the time after which it acts; the default policy is GapWait.
type Gap struct {
	Policy GapPolicy
	After  time.Duration
}

// Bounds limit held messages. Zero fields take the defaults: 1000 messages, 8 MiB, 10000 numbers
// ahead.
type Bounds struct {
	Count    int
	Bytes    int
	Distance uint64
}

func (b Bounds) withDefaults() Bounds {
	if b.Count == 0 {
		b.Count = 1000
	}
	if b.Bytes == 0 {
		b.Bytes = 8 << 20
	}
	if b.Distance == 0 {
		b.Distance = 10000
	}
	return b
}

func (s Stream) withDefaults() Stream {
	if s.Admission == "" {
		s.Admission = ByKey
	}
	if s.GroupRetention == 0 {
		s.GroupRetention = DefaultGroupRetention
	}
	s.GroupRetention = max(s.GroupRetention, s.LogRetention)
	if s.Gap.Policy == "" {
		s.Gap.Policy = GapWait
	}
	s.Retry = s.Retry.Or(MessageRetry())
	if s.Batch != nil && s.BatchSize == 0 {
		s.BatchSize = DefaultBatchSize
	}
	s.Bounds = s.Bounds.withDefaults()
	if s.Partitions > 0 && s.Limits.Ranges == 0 {
		s.Limits.Ranges = DefaultPartitionRanges
	}
	s.Limits = s.Limits.withDefaults()
	return s
}

// RetentionOf returns how long a done token of m is kept. For a numbered message it never exceeds
// GroupRetention: once the group record is forgotten, numbering restarts at 1, and the same number
// names a different message.
func (s Stream) RetentionOf(m *Message) time.Duration {
	retention := cmp.Or(s.Retention, DefaultRetention)
	if s.Admission == BySequence && m.Route == "" {
		return min(retention, s.GroupRetention)
	}
	return retention
}

// RecordRetention returns how long a group record with that state outlives its last message; 0 is
// for ever. The record of a partition is kept for ever: a pool counts the entries of its logs, and
// if a log began again, the entries that were not dealt yet would have no reader.
func (s *Stream) RecordRetention(state []byte) time.Duration {
	switch {
	case s.Partitions > 0:
		return 0
	case len(state) == 0, s.LogState != nil && s.LogState(state):
		return s.GroupRetention
	}
	return s.StateRetention
}

// Streams are configured streams by name, with their defaults filled in.
type Streams map[string]Stream

// ErrNoStream says that a message names a stream that is not configured.
var ErrNoStream = errors.New("no such stream")

// NewStreams checks streams and fills in their defaults. An error names the stream and the rule.
func NewStreams(streams []Stream) (Streams, error) {
	byName := make(Streams, len(streams))
	for _, s := range streams {
		if err := ValidStream(s.Name); err != nil {
			return nil, fmt.Errorf("stream %q: %w", s.Name, err)
		}
		if _, twice := byName[s.Name]; twice || (s.Handler == nil) == (s.Batch == nil) {
			return nil, fmt.Errorf("stream %q: needs one handler and a name of its own", s.Name)
		}
		if s.Batch != nil && (s.Stateless || s.Partitions > 0 || s.BatchSize < 0) {
			return nil, fmt.Errorf("stream %q: a batch handler needs a stream with state, without partitions, and a batch of at least 1", s.Name)
		}
		s = s.withDefaults()
		if least := max(s.GroupRetention, s.Retention); s.StateRetention != 0 && s.StateRetention < least {
			return nil, fmt.Errorf("stream %q: StateRetention (state.retain) is %s, and must be at least %s: the longest of Retention, GroupRetention and LogRetention", s.Name, s.StateRetention, least)
		}
		byName[s.Name] = s
	}
	return byName, nil
}

// KeepDone sets Stream.KeepDone of the streams that qualify. Their groups have to outlive both the
// done message and its issued token, which stays issued: together with it, the entry shows that the
// message is done. A stream without state may process the same message without a group record.
func (s Streams) KeepDone() {
	for name, x := range s {
		x.KeepDone = x.Admission == ByKey && !x.Stateless && x.GroupRetention >= max(IssuedRetention, cmp.Or(x.Retention, DefaultRetention))
		s[name] = x
	}
}

// Limit sets the largest bodies of the streams in a system that holds large bodies, or does not.
func (s Streams) Limit(large bool) {
	for name, x := range s {
		if x.MaxBody = cmp.Or(x.MaxBody, MaxBody); !large {
			x.MaxBody = min(x.MaxBody, SmallBody)
		}
		s[name] = x
	}
}

// GroupRetention returns how long a group record without state outlives its last message. A stream
// that is no longer configured has the default.
func (s Streams) GroupRetention(name string) time.Duration {
	if known, ok := s[name]; ok {
		return known.GroupRetention
	}
	return DefaultGroupRetention
}
