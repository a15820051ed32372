package telemetry

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"go.opentelemetry.io/otel/trace"
)

// What each line of a function's log says, in the words that Lambda's own lines use.
const (
	attrRequestID = "requestId"
	attrFunction  = "function"
)

// NewLog makes the log of a function: lines of JSON with the keys of Lambda's own lines (timestamp, level, message), the name of the function, the id of its request and, where
// there is one, of its trace. level is one of Lambda's, TRACE to FATAL; anything else means INFO.
//
// Much is logged without a context. Such a line gets the id of the request that is under way, where that is one: a function serves one at a time, unless it is told otherwise.
func NewLog(w io.Writer, function, level string) *slog.Logger {
	var h slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: parseLevel(level), ReplaceAttr: lambdacontext.ReplaceAttr})
	if function != "" {
		h = h.WithAttrs([]slog.Attr{slog.String(attrFunction, function)})
	}
	return slog.New(&logHandler{Handler: h, running: &running{}})
}

func parseLevel(level string) slog.Level {
	switch strings.ToUpper(level) {
	case "TRACE", "DEBUG":
		return slog.LevelDebug
	case "WARN":
		return slog.LevelWarn
	case "ERROR", "FATAL":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

type logHandler struct {
	slog.Handler
	running *running
}

// Handle adds what is known of the request.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	id := h.running.only()
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		id = lc.AwsRequestID
	}
	r = r.Clone()
	if id != "" {
		r.AddAttrs(slog.String(attrRequestID, id)) //nolint:sloglint // the key of Lambda's own lines
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is slog's.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.running}
}

// WithGroup is slog's.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.running}
}

// running are the requests under way.
type running struct {
	mu  sync.Mutex
	ids map[string]int
}

func (r *running) enter(id string) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]int{}
	}
	r.ids[id]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.ids[id]--; r.ids[id] == 0 {
			delete(r.ids, id)
		}
	}
}

// only gives the id of the request under way; empty where there is none, or several.
func (r *running) only() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ids) != 1 {
		return ""
	}
	for id := range r.ids {
		return id
	}
	return ""
}
