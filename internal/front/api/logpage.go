package api

import (
	"net/http"
	"strconv"

	"github.com/effectively-once/once/internal/dedup/log"
)

// maxPage is the size from which on an answer takes no further entry, in bytes. A function of AWS
// can answer with 6 MB at most, in which quotes take two bytes.
const maxPage = 2 << 20

// A page is an answer with entries.
type page struct {
	format  string
	entries int
	end     bool // nothing follows them
	append  func(b []byte, i int) ([]byte, error)
	next    func(sent int) string // where to continue after the first ones
}

// sendPage answers with the entries of a page, as far as one answer takes them.
func (s *server) sendPage(w http.ResponseWriter, p page) error {
	buffer := s.buffer()
	defer s.keep(buffer)
	b, sent := (*buffer)[:0], 0
	if p.format == formatJSON {
		b = append(b, `{"entries":[`...)
	}
	for sent < p.entries && (len(b) < maxPage || sent == 0) {
		if p.format == formatJSON && sent > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = p.append(b, sent); err != nil {
			return err
		}
		sent++
	}
	next, end := p.next(sent), p.end && sent == p.entries
	if p.format == formatJSON {
		b = append(append(b, `],"next":"`...), next...)
		b = strconv.AppendBool(append(b, `","end":`...), end)
		b = append(b, "}\n"...)
	}
	*buffer = b
	position(w.Header(), next, end)
	w.Header()["Content-Type"] = []string{p.format}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(http.StatusOK)
	// If writing fails, the caller is gone.
	_, _ = w.Write(b)
	return nil
}

// answerPage answers with the entries of a page in the format of the query.
func (s *server) answerPage(w http.ResponseWriter, q *logQuery, p *log.Page) error {
	return s.sendPage(w, page{
		q.format, len(p.Entries), p.End, func(b []byte, i int) ([]byte, error) { return q.appendEntry(b, &p.Entries[i], p) },
		func(sent int) string {
			next := p.Next
			if sent > 0 {
				next.Number = p.Entries[sent-1].Number
			}
			return next.String()
		},
	})
}

// position sets the headers that say where a reader continues.
func position(h http.Header, next string, end bool) {
	h["Cache-Control"] = []string{"no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h[headerNext] = []string{next}
	if end {
		h[headerEnd] = []string{"true"}
	}
}

// appendEntry appends an entry as an item of the answer.
func (q *logQuery) appendEntry(b []byte, x *log.Encoded, page *log.Page) ([]byte, error) {
	if q.format == formatCBOR {
		return x.AppendCBOR(b, page.Next.Incarnation, q.principal), nil
	}
	b, err := x.AppendJSON(b, page.Next.Incarnation, q.principal)
	if err == nil && q.format == formatLines {
		b = append(b, '\n')
	}
	return b, err
}

// buffer returns a buffer, which keep takes back.
func (s *server) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func (s *server) keep(b *[]byte) {
	if cap(*b) <= 2*maxPage {
		s.buffers.Put(b)
	}
}
