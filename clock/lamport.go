package clock

import "math"

// Lamport is a Lamport clock: the number of the last event of a process. The zero value is a
// process that has had no event.
//
// Source: L. Lamport, Time, Clocks, and the Ordering of Events in a Distributed System,
// Communications of the ACM 21(7), 1978, rules IR1 and IR2.
type Lamport uint64

// Tick returns the clock after an event of its own process, such as the sending of a message. It
// returns l and ErrOverflow if there is no higher number.
func (l Lamport) Tick() (Lamport, error) {
	if l == math.MaxUint64 {
		return l, ErrOverflow
	}
	return l + 1, nil
}

// Receive returns the clock after the process received a message that was sent at the given number:
// one more than the higher of the two. It returns l and ErrOverflow if there is no higher number.
func (l Lamport) Receive(sent Lamport) (Lamport, error) {
	next, err := max(l, sent).Tick()
	if err != nil {
		return l, err
	}
	return next, nil
}
