// Package clock provides logical clocks: values that order events of several processes without
// comparing their wall clocks.
//
//   - [Lamport] is one number. If event a happened before event b, the number of a is lower. The
//     converse does not hold: of two events with different numbers, neither may know the other.
//   - [Vector] has a number for each member. It reports exactly whether one event happened before
//     another, or whether the two are concurrent. It grows with the members.
//   - [Hybrid] is a Lamport clock that stays close to the wall clock. It fits into eight bytes and
//     reads as a time.
//
// All three are values: methods return a new clock and leave the receiver as it is. They have no
// locks. A process that shares a clock between goroutines guards the variable that holds it.
//
// # Errors
//
// A clock that came from elsewhere can be damaged or absurd. Parsing accepts only the canonical
// form of a clock and returns [ErrFormat] otherwise. [Hybrid.Receive] refuses a time that is too
// far ahead of the local wall clock with an [*AheadError].
//
// # Limits
//
// The package imports the standard library only. A vector has at most [MaxMembers] members, each
// with a name of at most [MaxName] bytes.
package clock

import "errors"

// ErrFormat says that a text or binary form is not the form of a clock.
var ErrFormat = errors.New("not the form of a clock")

// ErrOverflow says that a counter has reached its largest value.
var ErrOverflow = errors.New("counter of a clock overflows")
