package wire

import (
	"errors"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// DelayRule and NotBeforeRule are the rules of [ParseDelay] and [ParseNotBefore], for people.
const (
	DelayRule     = "has to be a duration of at most 365d, such as 30s, 15m or 7d"
	NotBeforeRule = "has to be a time of RFC 3339, such as 2026-01-31T12:00:00Z"
)

// ParseDelay parses the delay of a message: a duration in Go's format, optionally after days.
func ParseDelay(text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	if err == nil && d.Std() > record.MaxDelay {
		err = errors.New("the delay is too long")
	}
	return d.Std(), err
}

// ParseNotBefore parses the time when a message is due.
func ParseNotBefore(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err
}
