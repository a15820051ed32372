package stacktest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// A LogEvent is one line of a log group.
type LogEvent struct {
	Time time.Time
	Text string
}

// term is a part of a filter pattern, as $.hash = "2f1a9c0b7d44".
var term = regexp.MustCompile(`\$\.(\w+) = "([^"]*)"`)

// filterLogs answers FilterLogEvents, one event a page, with an empty page before the last one. Of
// patterns it knows terms, one of which must hold.
func (a *AWS) filterLogs(w http.ResponseWriter, r *http.Request) {
	var in struct {
		LogGroupName, FilterPattern, NextToken string
		StartTime                              int64
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // invalid JSON names no log group
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if slices.Contains(a.Denied, "FilterLogEvents") {
		logsError(w, "AccessDeniedException")
		return
	}
	events, ok := a.Logs[in.LogGroupName]
	if !ok {
		logsError(w, "ResourceNotFoundException")
		return
	}
	var found []LogEvent
	for _, e := range events {
		if e.Time.UnixMilli() >= in.StartTime && matches(in.FilterPattern, e.Text) {
			found = append(found, e)
		}
	}
	at, _ := strconv.Atoi(in.NextToken) // the first page has none
	out := map[string]any{"events": []any{}}
	if at < len(found) {
		out["events"] = []any{map[string]any{"timestamp": found[at].Time.UnixMilli(), "message": found[at].Text}}
	}
	if at <= len(found) {
		out["nextToken"] = strconv.Itoa(at + 1)
	}
	_ = json.NewEncoder(w).Encode(out) // an error means that the client has disconnected
}

func logsError(w http.ResponseWriter, name string) {
	w.Header().Set("X-Amzn-Errortype", name)
	w.WriteHeader(http.StatusBadRequest)
}

func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	var line map[string]any
	_ = json.Unmarshal([]byte(text), &line) // text that is not JSON has no members
	return slices.ContainsFunc(term.FindAllStringSubmatch(pattern, -1), func(t []string) bool { return line[t[1]] == t[2] })
}
