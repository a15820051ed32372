package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// A sessionQuery has the parameters of a request for entries.
type sessionQuery struct {
	id        session.ID
	principal string
	format    string
	reading   session.Reading
	wait      time.Duration
	resumed   bool // reading.After is the Last-Event-ID of a stream of events
}

// sessionEntries answers with the next entries of a session.
//
// A HEAD request is refused: a read deals entries to the session, so it is not harmless.
func (s *server) sessionEntries(w http.ResponseWriter, r *http.Request, id session.ID) error {
	if r.Method == http.MethodHead {
		return &problem.Problem{Type: problem.MethodNotAllowed, Allow: []string{http.MethodGet}}
	}
	q, err := s.sessionQuery(r, id)
	if err != nil {
		return err
	}
	if q.format == formatEvents {
		return s.sendSessionEvents(w, r, q)
	}
	page, err := s.nextEntries(r.Context(), q)
	if err != nil {
		return sessionProblem(err)
	}
	return s.answerEntries(w, q, &page)
}

// sessionQuery reads the parameters of a query. It limits wait and max.
func (s *server) sessionQuery(r *http.Request, id session.ID) (q *sessionQuery, err error) {
	q = &sessionQuery{id: id, reading: session.Reading{Limit: defaultEntries}}
	if q.principal, err = s.caller(r); err != nil {
		return nil, err
	}
	if q.format, err = acceptedFormat(r.Header["Accept"]); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.New(problem.MalformedRequest, "The query can't be read.")
	}
	for name, list := range values {
		n, err := strconv.ParseUint(list[0], 10, 63)
		if len(list) != 1 || err != nil {
			return nil, malformed(name, "must be in the query once, as a decimal number")
		}
		switch name {
		case "fence":
			q.reading.Fence = n
		case "after":
			q.reading.After = &n
		case "max":
			q.reading.Limit = int(min(max(n, 1), maxSequence))
		case "wait":
			q.wait = min(time.Duration(min(n, 3600))*time.Second, s.longestLogWait(r.Context()))
		default:
			return nil, problem.New(problem.MalformedRequest, "The query has a parameter other than fence, after, max and wait.")
		}
	}
	if err := given(q.reading.Fence); err != nil {
		return nil, err
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" && q.format == formatEvents {
		n, err := strconv.ParseUint(id, 10, 63)
		if err != nil {
			return nil, malformed("Last-Event-ID", "must be the number of an entry")
		}
		q.reading.After, q.resumed = &n, true
	}
	q.reading.Limit = min(q.reading.Limit, maxOf(q.format))
	return q, nil
}

// followed returns the group whose appends wake a waiting consumer: all groups of the stream if the
// session is one of a pool.
func followed(id session.ID) record.GroupKey {
	return record.GroupKey{Stream: id.Stream, Group: id.Group}
}

// nextEntries reads the next page. If it is empty, it waits for entries as long as the query wants.
func (s *server) nextEntries(ctx context.Context, q *sessionQuery) (session.Page, error) {
	return waited(ctx, s, followed(q.id), q.wait, func() (session.Page, bool, error) {
		p, err := s.Sessions.Read(ctx, q.id, q.reading)
		return p, len(p.Entries) > 0 || p.End, err
	})
}

// answerEntries answers with the entries of a page in the format of the query.
func (s *server) answerEntries(w http.ResponseWriter, q *sessionQuery, p *session.Page) error {
	if len(p.Entries) == 0 && !p.End {
		w.Header()["Cache-Control"] = []string{"no-store"}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return s.sendPage(w, page{
		q.format, len(p.Entries), p.End, func(b []byte, i int) ([]byte, error) { return q.append(b, &p.Entries[i]) },
		func(sent int) string {
			if sent == 0 {
				return strconv.FormatUint(p.Next, 10)
			}
			return strconv.FormatUint(p.Entries[sent-1].Number, 10)
		},
	})
}

// append appends an entry as an item of the answer.
func (q *sessionQuery) append(b []byte, x *session.Entry) (_ []byte, err error) {
	if q.format == formatCBOR {
		return q.appendCBOR(b, x), nil
	}
	if b, err = q.appendJSON(b, x); err == nil && q.format == formatLines {
		b = append(b, '\n')
	}
	return b, err
}

// appendJSON appends an entry as a JSON object. A dead letter has the member dead, and the end of
// the pool has only its number and kind.
func (q *sessionQuery) appendJSON(b []byte, x *session.Entry) (_ []byte, err error) {
	if x.End {
		b = strconv.AppendUint(append(b, `{"number":`...), x.Number, 10)
		return append(b, `,"kind":"end"}`...), nil
	}
	if b, err = x.AppendJSON(b, x.Offset.Incarnation, q.principal); err == nil && x.Dead {
		b = append(b[:len(b)-1], `,"dead":true}`...)
	}
	return b, err
}

func (q *sessionQuery) appendCBOR(b []byte, x *session.Entry) []byte {
	at := len(b)
	if x.End {
		e := encoding.Encoder{B: b}
		e.Object()
		e.Name(at, "kind")
		e.Text(string(record.EntryEnd))
		e.Name(at, "number")
		e.Uint(x.Number)
		return e.B
	}
	b = x.AppendCBOR(b, x.Offset.Incarnation, q.principal)
	if x.Dead {
		e := encoding.Encoder{B: b}
		e.Name(at, "dead")
		e.Bool(true)
		b = e.B
	}
	return b
}
