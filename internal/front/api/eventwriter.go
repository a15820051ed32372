package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// An eventWriter sends server-sent events to one reader.
type eventWriter struct {
	server  *server
	request *http.Request
	writer  http.ResponseWriter
	control *http.ResponseController
	refusal func(error) error // returns the problem for an error
	whole   bool              // the answer is sent when it is complete
	last    time.Time
}

func (s *server) events(w http.ResponseWriter, r *http.Request, refusal func(error) error) eventWriter {
	return eventWriter{server: s, request: r, writer: w, control: http.NewResponseController(w), refusal: refusal}
}

// begin sends the headers. Only HEAD has the position in them: events have it in their ids.
func (e *eventWriter) begin() {
	h := e.writer.Header()
	if e.request.Method != http.MethodHead {
		delete(h, headerNext)
		delete(h, headerEnd)
	}
	h["Content-Type"] = []string{formatEvents}
	h["X-Accel-Buffering"] = []string{"no"}
	_ = e.control.SetReadDeadline(time.Time{}) // which the server has set for the request
	e.writer.WriteHeader(http.StatusOK)
	e.whole = errors.Is(e.control.Flush(), http.ErrNotSupported)
	e.last = e.server.Now()
}

// until returns the context in which the reader can wait for events. An answer that is sent whole
// must not take longer than one page may.
func (e *eventWriter) until() (context.Context, context.CancelFunc) {
	ctx := e.request.Context()
	if e.whole {
		return context.WithTimeout(ctx, e.server.longestLogWait(ctx))
	}
	return ctx, func() {}
}

// beat sends a comment line if nothing was sent for long. It reports whether the reader is still
// there.
func (e *eventWriter) beat() bool {
	if e.server.Now().Sub(e.last) < e.server.Heartbeat {
		return true
	}
	return e.send(func(b []byte) ([]byte, error) { return append(b, ":\n\n"...), nil })
}

// fail sends the problem of an error as an event.
func (e *eventWriter) fail(err error) {
	id := e.server.RequestID(e.request)
	p := e.server.problem(e.request, id, e.refusal(err))
	e.send(func(b []byte) ([]byte, error) {
		b = append(append(b, "event: problem\ndata: "...), p.JSON(instance(id))...)
		return append(b, "\n\n"...), nil
	})
}

// send writes what a function appends. It reports whether the reader is still there.
func (e *eventWriter) send(write func([]byte) ([]byte, error)) bool {
	buffer := e.server.buffer()
	defer e.server.keep(buffer)
	b, err := write((*buffer)[:0])
	if err != nil {
		e.fail(err)
		return false
	}
	*buffer = b
	e.last = e.server.Now()
	_ = e.control.SetWriteDeadline(time.Now().Add(e.server.SlowestEvents)) //nolint:forbidigo // the clock of the network
	if _, err = e.writer.Write(b); err == nil && !e.whole {
		err = e.control.Flush()
	}
	return err == nil
}
