package record

import (
	"cmp"
	"errors"
	"time"
)

// A RetryPolicy sets the pauses between tries, and when the tries end: of a message whose handler
// returned an error, or of an effect that its destination did not take. Zero fields take the
// defaults of a message or an effect, see [RetryPolicy.Or].
type RetryPolicy struct {
	// First and Max bound the pauses: the pause after try n is drawn between First/2 and
	// First·2^(n-1), but at most Max.
	First, Max time.Duration
	// For is how long failed tries are repeated, from when the queue got the message or from the
	// commit of the effect; if it is delayed, from when it is due. What fails later becomes a dead
	// letter.
	For time.Duration
}

// MinTries is the minimum number of tries before a message becomes a dead letter, however old it
// is: after a long outage, a backlog is older than [RetryPolicy.For] when its first try begins.
const MinTries = 5

// MaxPause is the longest pause between two tries: SQS hides a message for at most 12 hours from
// when it was received.
const MaxPause = 11 * time.Hour

// MaxRetry is the longest time for which tries are repeated: SQS keeps a message for 14 days.
const MaxRetry = 13 * 24 * time.Hour

// MaxTries is the largest number of deliveries that a queue of SQS can allow before it moves a
// message to its dead-letter queue.
const MaxTries = 1000

// LastChance is the age at which a failing message becomes a dead letter even if its failures were
// seen by several processes: SQS deletes a message after 14 days without a word.
const LastChance = MaxRetry

// MessageRetry returns the default policy for messages.
func MessageRetry() RetryPolicy {
	return RetryPolicy{First: time.Second, Max: 5 * time.Minute, For: 24 * time.Hour}
}

// EffectRetry returns the default policy for effects.
func EffectRetry() RetryPolicy {
	return RetryPolicy{First: time.Second, Max: 10 * time.Minute, For: 72 * time.Hour}
}

// Or returns the policy with its zero fields replaced by those of another one.
func (r RetryPolicy) Or(other RetryPolicy) RetryPolicy {
	longest := cmp.Or(r.Max, max(other.Max, r.First))
	return RetryPolicy{First: cmp.Or(r.First, min(other.First, longest)), Max: longest, For: cmp.Or(r.For, other.For)}
}

// Pause returns the time between a failed try, counted from 1, and the next one: exponential, with
// full jitter, so that messages that failed together are not retried together. It is never less
// than half of First. random returns a number in [0, n); see [math/rand/v2.Int64N].
func (r RetryPolicy) Pause(try int, random func(n int64) int64) time.Duration {
	longest := min(r.Max, MaxPause)
	most := min(r.First, longest)
	for range max(try, 1) - 1 {
		if most > longest/2 {
			most = longest
			break
		}
		most *= 2
	}
	least := min(r.First/2, most)
	return least + time.Duration(random(int64(most-least)+1))
}

// Tries returns the limit of deliveries for a queue behind the policy. It is 3·For/Max + 64: the
// mean pause is a little more than half of Max, so that For takes about 2·For/Max tries. It is at
// most 24 days divided by Max, about 12 days of pauses: SQS would delete an older message without a
// word.
func (r RetryPolicy) Tries() int {
	if r.Max <= 0 {
		return MinTries
	}
	needed := int(3*(r.For/r.Max)) + 64 // 64 for the pauses before Max is reached
	return max(MinTries, min(needed, int(24*24*time.Hour/r.Max)))
}

// ErrUntried says that a sender did not try a delivery, for example because its destination was
// failing a moment ago. It wraps the reason.
var ErrUntried = errors.New("not tried")

// A LaterError says that a delivery failed, and when it is to be tried next.
type LaterError struct {
	At  time.Time
	Err error // of the last try
}

func (e *LaterError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the last try.
func (e *LaterError) Unwrap() error { return e.Err }

// NextTry returns the earliest time of the [LaterError]s that err wraps, or the zero time if there
// is none. It reports whether err has no other reason: nothing but them, and deliveries behind
// them.
func NextTry(err error) (at time.Time, only bool) {
	only = true
	var walk func(error)
	walk = func(err error) {
		if later, ok := err.(*LaterError); ok { //nolint:errorlint // walks the tree itself
			if at.IsZero() || later.At.Before(at) {
				at = later.At
			}
			return
		}
		switch x := err.(type) { //nolint:errorlint // walks the tree itself
		case interface{ Unwrap() error }:
			walk(x.Unwrap())
		case interface{ Unwrap() []error }:
			for _, err := range x.Unwrap() {
				walk(err)
			}
		default:
			only = only && err == ErrBlocked //nolint:errorlint // walks the tree itself
		}
	}
	walk(err)
	return at, only && !at.IsZero()
}
