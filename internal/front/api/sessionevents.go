package api

import (
	"net/http"
	"strconv"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/system/follow"
)

// sendSessionEvents sends the entries of a session as server-sent events, until the reader goes,
// another one opens the session, the pool ends, or the server does. The ids of the events are the
// numbers of the entries. Behind API Gateway it answers with one page, see sendEvents.
func (s *server) sendSessionEvents(w http.ResponseWriter, r *http.Request, q *sessionQuery) error {
	leave, err := s.enterLog()
	if err != nil {
		return err
	}
	defer leave()
	f := s.Logs.Follow(followed(q.id)) // before reading, see package follow
	defer f.Close()
	page, err := s.Sessions.Read(r.Context(), q.id, q.reading)
	if err != nil {
		return sessionProblem(err)
	}
	if q.resumed && page.End && len(page.Entries) == 0 {
		w.WriteHeader(http.StatusNoContent) // a browser does not connect again after this status
		return nil
	}
	h := w.Header()
	h["Cache-Control"], h["X-Content-Type-Options"] = []string{"no-store"}, []string{"nosniff"}
	e := sessionEvents{s.events(w, r, sessionProblem), q}
	e.begin()
	e.follow(f, page)
	return nil
}

// sessionEvents are the events of a session to one reader.
type sessionEvents struct {
	eventWriter
	query *sessionQuery
}

// follow sends a page and the pages after it.
func (e *sessionEvents) follow(f follow.Follower, page session.Page) {
	ctx, cancel := e.until()
	defer cancel()
	for {
		next, ok := e.page(&page)
		if !ok || e.whole && len(page.Entries) > 0 || page.End && next == page.Next {
			return
		}
		if len(page.Entries) == 0 && f.Wait(ctx) != nil {
			return
		}
		e.query.reading.After = &next
		var err error
		if page, err = e.server.Sessions.Read(e.request.Context(), e.query.id, e.query.reading); err != nil {
			e.fail(err)
			return
		}
	}
}

// page sends the entries of a page, as far as one write takes them. It returns the number of the
// last one, and reports whether the reader is still there.
func (e *sessionEvents) page(page *session.Page) (next uint64, ok bool) {
	next = page.Next
	if len(page.Entries) == 0 && !page.End {
		return next, e.beat()
	}
	ok = e.send(func(b []byte) (_ []byte, err error) {
		for i := range page.Entries {
			x := &page.Entries[i]
			next = x.Number
			b = strconv.AppendUint(append(b, "id: "...), next, 10)
			if b, err = e.query.appendJSON(append(b, "\ndata: "...), x); err != nil {
				return nil, err
			}
			b = append(b, "\n\n"...)
			if len(b) >= maxPage && i+1 < len(page.Entries) {
				return b, nil
			}
		}
		if page.End {
			b = strconv.AppendUint(append(b, "event: end\ndata: {\"next\":\""...), next, 10)
			b = append(b, "\",\"end\":true}\n\n"...)
		}
		return b, nil
	})
	return next, ok
}
