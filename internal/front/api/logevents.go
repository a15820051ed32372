package api

import (
	"net/http"

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
	position(w.Header(), page.Next.String(), page.End)
	if q.resumed && page.End && len(page.Entries) == 0 {
		w.WriteHeader(http.StatusNoContent) // a browser does not connect again after this status
		return nil
	}
	e := events{eventWriter: s.events(w, r, logProblem), query: q}
	e.begin()
	if r.Method != http.MethodHead {
		e.follow(f, page)
	}
	return nil
}

// events are the events of a log to one reader.
type events struct {
	eventWriter
	query *logQuery
}

// follow sends a page and the pages after it. It begins with an event that has the reader's
// position and no data, so that a reader that connects again before the first entry continues
// there.
func (e *events) follow(f follow.Follower, page log.Page) {
	ctx, cancel := e.until()
	defer cancel()
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
	default:
		ok = e.beat()
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
