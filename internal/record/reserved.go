package record

// The reserved streams of the records of consumer sessions, and of the pools that deal the logs of
// a stream out to them. No configured stream can have these names, because the names of streams
// begin with a letter or a digit.
const (
	SessionsStream = "~sessions"
	PoolsStream    = "~pools"
)

// MaxReservedGroup is the longest name of a group in [SessionsStream] and [PoolsStream], in bytes.
const MaxReservedGroup = 1536

// OfSessions reports whether the group is in [SessionsStream] or [PoolsStream]. Such groups have
// effects like all others, but no messages.
func (k GroupKey) OfSessions() bool { return k.Stream == SessionsStream || k.Stream == PoolsStream }

// SchedulesStream is the reserved stream of the records of schedules, one for each name of a
// schedule. They have neither messages nor effects.
const SchedulesStream = "~schedules"
