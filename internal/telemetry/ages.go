package telemetry

import (
	"sync"
	"time"
)

// ageTime is how long the greatest age is reported at least, and at most twice as long: longer than
// the usual time between two reports.
const ageTime = time.Minute

// Ages keeps the greatest ages of the last minute or two, for any number of readers. It may be used
// concurrently.
type Ages struct {
	now func() time.Time

	mu      sync.Mutex
	since   time.Time // when ages began
	ages    Counts
	earlier Counts // of the time before
}

// NewAges returns Ages without any.
func NewAges(now func() time.Time) *Ages { return &Ages{now: now} }

// turn forgets ages that are old.
func (a *Ages) turn() {
	switch age := a.now().Sub(a.since); {
	case age >= 2*ageTime || age < 0:
		a.since, a.ages, a.earlier = a.now(), Counts{}, nil
	case age >= ageTime:
		a.since, a.ages, a.earlier = a.since.Add(ageTime), Counts{}, a.ages
	}
}

// Add keeps an age, in seconds.
func (a *Ages) Add(stream, metric string, age float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn()
	a.ages.Add(stream, metric, age)
}

// Each calls yield with the greatest age of a metric in each stream.
func (a *Ages) Each(metric string, yield func(stream string, age float64)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn()
	greatest := Counts{}
	for _, counts := range []Counts{a.earlier, a.ages} {
		for stream, of := range counts {
			if age, ok := of[metric]; ok {
				greatest.Add(stream, metric, age)
			}
		}
	}
	for stream, of := range greatest {
		yield(stream, of[metric])
	}
}
