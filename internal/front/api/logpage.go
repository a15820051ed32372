package api

import (
	"net/http"
	"strconv"

	"github.com/effectively-once/once/internal/dedup/log"
)

// maxPage is the size from which on an answer takes no further entry, in bytes. A function of AWS
// can answer with 6 MB at most, in which quotes take two bytes.
const maxPage = 2 << 20

// answerPage answers with the entries of a page in the format of the query.
func (s *server) answerPage(w http.ResponseWriter, q *logQuery, page *log.Page) error {
	buffer := s.buffer()
	defer s.keep(buffer)
	b := (*buffer)[:0]
	if q.format == formatJSON {
		b = append(b, `{"entries":[`...)
	}
	next, left := page.Next, page.Entries
	for len(left) > 0 && (len(b) < maxPage || len(left) == len(page.Entries)) {
		var err error
		if q.format == formatJSON && len(left) < len(page.Entries) {
			b = append(b, ',')
		}
		if b, err = q.appendEntry(b, &left[0], page); err != nil {
			return err
		}
		next.Number, left = left[0].Number, left[1:]
	}
	end := page.End && len(left) == 0
	if q.format == formatJSON {
		b = next.Append(append(b, `],"next":"`...))
		b = strconv.AppendBool(append(b, `","end":`...), end)
		b = append(b, "}\n"...)
	}
	*buffer = b
	position(w.Header(), next, end)
	w.Header()["Content-Type"] = []string{q.format}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(http.StatusOK)
	// If writing fails, the caller is gone.
	_, _ = w.Write(b) //nolint:gosec // with a type that no browser shows as a page
	return nil
}

// position sets the headers that say where a reader continues.
func position(h http.Header, next log.Offset, end bool) {
	h["Cache-Control"] = []string{"no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h[headerNext] = []string{next.String()}
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
