package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAnErrorOfTheSchedulesIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := scheduleFailures{log: slog.New(slog.NewTextHandler(&log, nil))}
	now := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		text  string
		after time.Duration // after the call before
		lines int           // in the log
	}{
		{"disk full", 0, 1},
		{"disk full", time.Second, 1},
		{"disk full", 58 * time.Second, 1},
		{"disk full", time.Second, 2},
		{"corrupt record", time.Second, 3},
		{"corrupt record", time.Second, 3},
		{"corrupt record", -time.Hour, 4}, // the clock was put back
	} {
		now = now.Add(x.after)
		f.report(errors.New(x.text), now)
		if got := strings.Count(log.String(), "schedules not sent"); got != x.lines {
			t.Fatalf("the log has %d lines %v after the call before, want %d:\n%s", got, x.after, x.lines, &log)
		}
	}
}
