package deployed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/record"
)

// LogOptions select lines of the functions' logs.
type LogOptions struct {
	// Stream selects the lines about one stream if it is not empty.
	Stream string
	// Hashes selects the lines about messages if it is not empty: each is the attribute hash of a
	// line.
	Hashes []string
	// Since is the time of the first line.
	Since time.Time
	// Limit is the largest number of lines; the earliest are returned. It must be at least 1.
	Limit int
}

// A LogLine is one line of a function's log.
type LogLine struct {
	Time     time.Time
	Function string
	Group    string // the log group
	Text     string
}

// maxEvents is how many events CloudWatch returns in one page at most.
const maxEvents = 10000

// Logs returns lines of the functions of the stack in the order of their times, and whether there
// are more. It leaves out metrics, and Lambda's own lines about invocations that succeeded.
func (s *Stack) Logs(ctx context.Context, o LogOptions) (lines []LogLine, more bool, err error) {
	functions, err := s.functions(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(functions) == 0 {
		return nil, false, &SetupError{fmt.Sprintf("no function of stack %s has the environment of the engine", s.Name), "deploy it again", nil}
	}
	for _, f := range functions {
		got, err := s.logsOf(ctx, f, o)
		if err != nil {
			return nil, false, err
		}
		lines = append(lines, got...)
	}
	slices.SortStableFunc(lines, func(a, b LogLine) int { return a.Time.Compare(b.Time) })
	if more = len(lines) > o.Limit; more {
		lines = lines[:o.Limit]
	}
	return lines, more, nil
}

// logsOf returns the first lines of one function, one more than the limit at most: so it is known
// whether there are more, and the earliest of all functions are complete.
func (s *Stack) logsOf(ctx context.Context, f function, o LogOptions) ([]LogLine, error) {
	in := map[string]any{"logGroupName": f.logGroup, "startTime": o.Since.UnixMilli(), "limit": min(o.Limit+1, maxEvents)}
	if pattern := o.pattern(); pattern != "" {
		in["filterPattern"] = pattern
	}
	var out []LogLine
	for more := true; more && len(out) <= o.Limit; more = in["nextToken"] != "" {
		var page struct {
			NextToken string `json:"nextToken"`
			Events    []struct {
				Timestamp int64  `json:"timestamp"`
				Message   string `json:"message"`
			} `json:"events"`
		}
		err := s.logs.JSON(ctx, "FilterLogEvents", in, &page)
		if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "ResourceNotFoundException" { // it has never run
			return nil, nil
		}
		if err != nil {
			return nil, unreadLog(f.logGroup, explain(err))
		}
		in["nextToken"] = page.NextToken
		for _, e := range page.Events {
			line := LogLine{time.UnixMilli(e.Timestamp).UTC(), f.name, f.logGroup, strings.TrimRight(e.Message, "\n")}
			if o.wants(line) && len(out) <= o.Limit {
				out = append(out, line)
			}
		}
	}
	return out, nil
}

// unreadLog returns the error of a log that could not be read.
func unreadLog(group string, err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok && denied.Advice == missingPermission {
		denied.Advice = "to read logs takes the permission logs:FilterLogEvents on this log group"
	}
	return fmt.Errorf("read log group %s: %w", group, err)
}

// pattern returns the filter in CloudWatch's syntax, or "" for all lines. Hashes are of messages of
// a stream, so they need no stream.
func (o LogOptions) pattern() string {
	if len(o.Hashes) == 0 && o.Stream == "" {
		return ""
	}
	if len(o.Hashes) == 0 {
		return fmt.Sprintf(`{ $.stream = %q }`, o.Stream)
	}
	terms := make([]string, len(o.Hashes))
	for i, hash := range o.Hashes {
		terms[i] = fmt.Sprintf(`($.hash = %q)`, hash)
	}
	return "{ " + strings.Join(terms, " || ") + " }"
}

// wants reports whether a line is selected, and is neither a metric nor a line of Lambda about an
// invocation that did not fail. It does not rely on the pattern, which emulators ignore.
func (o LogOptions) wants(l LogLine) bool {
	var line struct {
		Stream  string          `json:"stream"`
		Hash    string          `json:"hash"`
		Metrics json.RawMessage `json:"_aws"`
		Type    any             `json:"type"` // lines of handlers may have others
		Record  json.RawMessage `json:"record"`
	}
	if json.Unmarshal([]byte(l.Text), &line) != nil {
		return o.pattern() == "" && !routine(l.Text)
	}
	kind, _ := line.Type.(string)
	switch {
	case line.Metrics != nil, strings.HasPrefix(kind, "platform.") && succeeded(line.Record):
		return false
	case len(o.Hashes) > 0:
		return slices.Contains(o.Hashes, line.Hash)
	}
	return o.Stream == "" || line.Stream == o.Stream
}

// succeeded reports whether a record of Lambda has no status, or that of success.
func succeeded(text json.RawMessage) bool {
	var r struct {
		Status string `json:"status"`
	}
	return json.Unmarshal(text, &r) == nil && cmp.Or(r.Status, "success") == "success"
}

// routine reports whether a text is a line of Lambda about an invocation that did not fail, in the
// format of a function whose log is text. Other texts are of a program that crashed.
func routine(text string) bool {
	return strings.HasPrefix(text, "START RequestId: ") || strings.HasPrefix(text, "END RequestId: ") ||
		strings.HasPrefix(text, "REPORT RequestId: ") && !strings.Contains(text, "Status: ")
}

// Hashes returns the attribute hash of log lines about a message: one for each principal that may
// have sent it. It looks nothing up.
func (s *System) Hashes(ctx context.Context, stream, id string) ([]string, error) {
	principals, err := s.principals(ctx)
	if err != nil {
		return nil, err
	}
	hashes := make([]string, len(principals))
	for i, principal := range principals {
		m := record.Message{Principal: principal, Stream: stream, ID: id}
		hashes[i] = m.Hash()
	}
	return hashes, nil
}
