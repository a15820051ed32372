package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxWait is the longest that a caller can wait for a message to be done.
const MaxWait = 60 * time.Second

// waitMargin is the part of a request's time that is kept for the answer when waiting ends.
const waitMargin = 500 * time.Millisecond

// preferredWait returns the seconds of "Prefer: wait=N" (RFC 7240). As the RFC asks, malformed or
// unknown preferences are ignored, and if a preference is repeated, the first counts.
func preferredWait(h http.Header) int {
	for _, line := range h["Prefer"] {
		for line != "" {
			var preference string
			preference, line = cutUnquoted(line, ',')
			preference, _ = cutUnquoted(preference, ';')
			name, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.Trim(name, " \t"), "wait") {
				return waitSeconds(strings.Trim(value, " \t"))
			}
		}
	}
	return 0
}

func waitSeconds(value string) int {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0
	}
	return min(int(n), int(MaxWait/time.Second))
}

// cutUnquoted cuts at the first separator outside of a quoted string.
func cutUnquoted(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// wait returns the number of whole seconds that this request can wait: its preference, as far as
// its deadline allows.
func (s *server) wait(r *http.Request) int {
	seconds := preferredWait(r.Header)
	if seconds == 0 {
		return 0
	}
	if deadline, has := r.Context().Deadline(); has {
		left := deadline.Sub(s.Now()) - waitMargin
		seconds = max(0, min(seconds, int(left/time.Second)))
	}
	return seconds
}
