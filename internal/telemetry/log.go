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

// The attributes of each line of a function's log, with the names of Lambda's own lines.
const (
	attrRequestID = "requestId"
	attrFunction  = "function"
)

// NewLog returns the log of a function: lines of JSON with the keys of Lambda's own lines
// (timestamp, level, message), the name of the function, the id of its request and, if there is
// one, of its trace. level is one of Lambda's, TRACE to FATAL; any other value means INFO.
//
// A line that is logged without a context gets the id of the current request, if there is exactly
// one, as is normal in a function.
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

// Handle adds the request's id and trace.
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

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.running}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.running}
}

// running is the set of current requests.
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

// only returns the id of the current request, or an empty string if there is none or several.
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
