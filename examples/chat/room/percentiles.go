package room

import (
	"fmt"
	"slices"
	"time"
)

// Percentiles are the values that 50, 95 and 99 percent of measurements do not exceed, and the
// largest one.
type Percentiles[T int | time.Duration] struct {
	Count              int
	P50, P95, P99, Max T
}

// PercentilesOf returns the percentiles of a list.
func PercentilesOf[T int | time.Duration](list []T) Percentiles[T] {
	if len(list) == 0 {
		return Percentiles[T]{}
	}
	sorted := slices.Sorted(slices.Values(list))
	at := func(p int) T { return sorted[(len(sorted)*p+99)/100-1] }
	return Percentiles[T]{Count: len(list), P50: at(50), P95: at(95), P99: at(99), Max: at(100)}
}

// String returns the four values.
func (p Percentiles[T]) String() string {
	return fmt.Sprintf("%s / %s / %s / %s", text(p.P50), text(p.P95), text(p.P99), text(p.Max))
}

// text returns a time in milliseconds, or a number.
func text[T int | time.Duration](v T) string {
	if d, ok := any(v).(time.Duration); ok {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprint(v)
}

// Row returns the values as a row of a table with fixed columns.
func (p Percentiles[T]) Row(what string) string {
	return fmt.Sprintf("%-36s %8d %9s %9s %9s %9s\n", what, p.Count, text(p.P50), text(p.P95), text(p.P99), text(p.Max))
}

// Head returns the head of a table of [Percentiles.Row]s.
func Head() string {
	return fmt.Sprintf("%-36s %8s %9s %9s %9s %9s\n", "", "count", "50 %", "95 %", "99 %", "most")
}

// A Sample keeps the last measurements, as many as it has room for. Its zero value has room for
// [SampleSize]. It is for one goroutine.
type Sample[T int | time.Duration] struct {
	list []T
	next int // the place of the next measurement, when the list is full
	all  int
}

// SampleSize is how many measurements a [Sample] keeps.
const SampleSize = 10_000

// Add adds a measurement, in place of the oldest one if there is no room.
func (s *Sample[T]) Add(v T) {
	s.all++
	if len(s.list) < SampleSize {
		s.list = append(s.list, v)
		return
	}
	s.list[s.next] = v
	s.next = (s.next + 1) % SampleSize
}

// Percentiles returns those of the measurements that are kept. Count has all measurements.
func (s *Sample[T]) Percentiles() Percentiles[T] {
	p := PercentilesOf(s.list)
	p.Count = s.all
	return p
}
