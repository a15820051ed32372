package api

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// The formats of a log.
const (
	formatJSON   = "application/json"
	formatLines  = batch.NDJSON
	formatCBOR   = batch.CBORSeq
	formatEvents = "text/event-stream"
)

// Limits of a page.
const (
	defaultEntries = 100
	maxJSON        = 1000   // entries in an answer that is one JSON document
	maxSequence    = 10_000 // entries in an answer that is a sequence of items
)

// A logQuery is the query of a reader.
type logQuery struct {
	group     record.GroupKey
	principal string
	format    string
	after     log.Offset
	now       bool // read from the end of the log; after is ignored
	resumed   bool // after is the Last-Event-ID of a stream of events
	max       int
	wait      time.Duration
}

// readLogQuery reads the parameters of a query, and Last-Event-ID. It changes wait and max to what
// is allowed.
func readLogQuery(h http.Header, query string, longest time.Duration) (logQuery, error) {
	q := logQuery{max: defaultEntries}
	var err error
	if q.format, err = acceptedFormat(h["Accept"]); err != nil {
		return q, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, problem.New(problem.MalformedRequest, "The query can't be read.")
	}
	for name, list := range values {
		if len(list) != 1 {
			return q, malformed(name, "must be in the query once")
		}
		if err := q.set(name, list[0], longest); err != nil {
			return q, err
		}
	}
	if id := h.Get("Last-Event-ID"); id != "" && q.format == formatEvents {
		q.now, q.resumed = false, true
		if q.after, err = log.ParseOffset(id); err != nil {
			return q, malformed("Last-Event-ID", offsetRule)
		}
	}
	q.max = min(q.max, maxOf(q.format))
	return q, nil
}

const offsetRule = "must be an offset that this log returned"

func maxOf(format string) int {
	if format == formatCBOR || format == formatLines {
		return maxSequence
	}
	return maxJSON
}

// set sets a parameter. Unknown ones are an error, because a misspelt after would read the log from
// its beginning.
func (q *logQuery) set(name, value string, longest time.Duration) (err error) {
	switch name {
	case "after":
		if q.now = value == "now"; q.now {
			return nil
		}
		if q.after, err = log.ParseOffset(value); err != nil {
			return malformed(name, offsetRule+", or now")
		}
	case "max":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || n == 0 {
			return malformed(name, "must be a decimal number of at least 1")
		}
		q.max = int(n)
	case "wait":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return malformed(name, "must be a number of seconds")
		}
		q.wait = min(time.Duration(n)*time.Second, longest)
	default:
		return problem.New(problem.MalformedRequest, "The query has a parameter other than after, max and wait.")
	}
	return nil
}

// acceptedFormat returns the format that an Accept header prefers. Of those that it likes equally,
// the first of the list below counts.
func acceptedFormat(accept []string) (string, error) {
	if len(accept) == 0 {
		return formatJSON, nil
	}
	best, format := 0.0, ""
	for _, f := range []string{formatJSON, formatLines, formatCBOR, formatEvents} {
		if weight := weightOf(f, accept); weight > best {
			best, format = weight, f
		}
	}
	if format == "" {
		return "", problem.New(problem.NotAcceptable, "A log is read as application/json, application/x-ndjson, application/cbor-seq or text/event-stream.")
	}
	return format, nil
}

// weightOf returns the weight of a format: that of the most exact range in Accept (RFC 9110).
func weightOf(format string, accept []string) float64 {
	kind, _, _ := strings.Cut(format, "/")
	weight, exactness := 0.0, 0
	for _, line := range accept {
		for item := range strings.SplitSeq(line, ",") {
			media, parameters, err := mime.ParseMediaType(strings.TrimSpace(item))
			if err != nil {
				continue
			}
			exact := map[string]int{"*/*": 1, kind + "/*": 2, format: 3}[media]
			if exact <= exactness {
				continue
			}
			w := 1.0
			if text, has := parameters["q"]; has {
				if w, err = strconv.ParseFloat(text, 64); err != nil || w < 0 || w > 1 {
					continue
				}
			}
			weight, exactness = w, exact
		}
	}
	return weight
}
