package room

import (
	"testing"
	"time"
)

func TestPercentilesAreValuesOfTheList(t *testing.T) {
	list := []int{5, 1, 4, 2, 3}
	if got, want := PercentilesOf(list), (Percentiles[int]{5, 3, 5, 5, 5}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if list[0] != 5 {
		t.Error("the list is sorted now")
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Millisecond
	}
	if got, want := PercentilesOf(hundred).String(), "50ms / 95ms / 99ms / 100ms"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := PercentilesOf([]int(nil)); got != (Percentiles[int]{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestASampleForgetsTheOldestMeasurements(t *testing.T) {
	var s Sample[int]
	s.Add(1_000_000)
	for range SampleSize {
		s.Add(1)
	}
	if got, want := s.Percentiles(), (Percentiles[int]{SampleSize + 1, 1, 1, 1, 1}); got != want || len(s.list) != SampleSize {
		t.Errorf("%+v of %d, not %+v", got, len(s.list), want)
	}
}
