package process

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func TestAnOlderMessageIsDeferredLonger(t *testing.T) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for age, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, 4 * time.Second: time.Second, 10 * time.Second: 2 * time.Second, time.Minute: 15 * time.Second,
		20 * time.Minute: 5 * time.Minute, time.Hour: 15 * time.Minute, 240 * time.Hour: 15 * time.Minute,
	} {
		if got := Backoff(&record.Message{Accepted: now.Add(-age)}, now); got != want {
			t.Errorf("age %v: got %v, want %v", age, got, want)
		}
	}
	if got := Backoff(&record.Message{}, now); got != time.Second {
		t.Errorf("of an unknown age: got %v", got)
	}
}
