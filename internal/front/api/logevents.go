package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/system/follow"
)

// sendEvents follows a log as server-sent events until the reader goes, the log ends, or the server
// does. Behind API Gateway, where answers are sent whole, it answers with one page, and the reader
// resumes.
func (s *server) sendEvents(w http.ResponseWriter, r *http.Request, q *logQuery) error {
	leave, err := s.enterLog()
	if err != nil {
		return err
	}
	defer leave()
	f := s.Logs.Follow(q.group) // before reading, see package follow
	defer f.Close()
	page, err := s.readPage(r.Context(), q)
	if err != nil {
		return logProblem(err)
	}
	position(w.Header(), page.Next, page.End)
	if q.resumed && page.End && len(page.Entries) == 0 {
		w.WriteHeader(http.StatusNoContent) // a browser does not connect again after this status
		return nil
	}
	e := events{server: s, query: q, request: r, writer: w, control: http.NewResponseController(w)}
	e.begin()
	if r.Method != http.MethodHead {
		e.follow(f, page)
	}
	return nil
}

// events is a stream of events to one reader.
type events struct {
	server  *server
	query   *logQuery
	request *http.Request
	writer  http.ResponseWriter
	control *http.ResponseController
	whole   bool // the answer is sent when it is complete
	last    time.Time
}

// begin sends the headers. Only HEAD has the position in them: events have it in their ids.
func (e *events) begin() {
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

// follow sends a page and the pages after it. It begins with an event that has the reader's
// position and no data, so that a reader that connects again before the first entry continues
// there.
func (e *events) follow(f follow.Follower, page log.Page) {
	ctx := e.request.Context()
	if e.whole {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.server.longestLogWait(ctx))
		defer cancel()
	}
	ok := e.send(func(b []byte) ([]byte, error) {
		return append(e.query.after.Append(append(b, "id: "...)), "\n\n"...), nil
	})
	for ok {
		next, ok := e.page(&page)
		if !ok || e.whole && len(page.Entries) > 0 || page.End && next == page.Next {
			return
		}
		if len(page.Entries) == 0 && f.Wait(ctx) != nil {
			return
		}
		e.query.after = next
		var err error
		if page, err = e.server.readPage(e.request.Context(), e.query); err != nil {
			e.fail(err)
			return
		}
	}
}

// page sends the entries of a page, as far as one answer takes them, or a comment line if nothing
// was sent for long. It returns the position after them, and reports whether the reader is still
// there.
func (e *events) page(page *log.Page) (next log.Offset, ok bool) {
	next = page.Next
	switch {
	case len(page.Entries) > 0 || page.End:
		ok = e.send(func(b []byte) (_ []byte, err error) {
			b, next, err = e.append(b, page)
			return b, err
		})
	case e.server.Now().Sub(e.last) < e.server.Heartbeat:
		ok = true
	default:
		ok = e.send(func(b []byte) ([]byte, error) { return append(b, ":\n\n"...), nil })
	}
	return next, ok
}

// append appends the events of a page, and returns the position after them.
func (e *events) append(b []byte, page *log.Page) (_ []byte, next log.Offset, err error) {
	next = page.Next
	for i := range page.Entries {
		x := &page.Entries[i]
		next.Number = x.Number
		b = append(next.Append(append(b, "id: "...)), "\ndata: "...)
		if b, err = x.AppendJSON(b, next.Incarnation, e.query.principal); err != nil {
			return nil, next, err
		}
		b = append(b, "\n\n"...)
		if len(b) >= maxPage && i+1 < len(page.Entries) {
			return b, next, nil
		}
	}
	if page.End {
		b = next.Append(append(b, "event: end\ndata: {\"next\":\""...))
		b = append(b, "\",\"end\":true}\n\n"...)
	}
	return b, next, nil
}

// fail sends the problem of an error as an event.
func (e *events) fail(err error) {
	id := e.server.RequestID(e.request)
	p := e.server.problem(e.request, id, logProblem(err))
	e.send(func(b []byte) ([]byte, error) {
		b = append(append(b, "event: problem\ndata: "...), p.JSON(instance(id))...)
		return append(b, "\n\n"...), nil
	})
}

// send writes what a function appends. It reports whether the reader is still there.
func (e *events) send(write func([]byte) ([]byte, error)) bool {
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
