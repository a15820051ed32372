package durable

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// control is the event after each part of data.
type control struct {
	Next     string `json:"streamNextOffset"`
	Cursor   string `json:"streamCursor,omitempty"`
	UpToDate bool   `json:"upToDate,omitempty"`
	Closed   bool   `json:"streamClosed,omitempty"`
}

// events sends the log as server-sent events, until the reader goes, the stream is closed, or the
// time of the connection is over.
func (s *server) events(w http.ResponseWriter, r *http.Request, q *reading) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.Events)
	defer cancel()
	f := s.Logs.Follow(q.key) // before reading, see package follow
	defer f.Close()
	p, err := s.read(ctx, q)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if !isText(q.state.Type) {
		h.Set("Stream-Sse-Data-Encoding", "base64")
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // which the server has set for the request
	w.WriteHeader(http.StatusOK)
	for first := true; ; first = false {
		if first || len(p.values) > 0 || p.closed {
			_ = c.SetWriteDeadline(time.Now().Add(s.Wait)) //nolint:forbidigo // the clock of the network
			if _, err := w.Write(s.event(q, &p)); err != nil || c.Flush() != nil || p.closed {
				return nil // the reader is gone, or has all
			}
		}
		q.after = p.next
		if p.upToDate && f.Wait(ctx) != nil {
			return nil
		}
		if p, err = s.read(ctx, q); err != nil {
			return nil // the reader connects again and is told why
		}
	}
}

// event returns the events of a part.
func (s *server) event(q *reading, p *part) []byte {
	var b strings.Builder
	if len(p.values) > 0 {
		text := string(p.content(q.state))
		if !isText(q.state.Type) {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		b.WriteString("event: data\n")
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString("data:" + line + "\n")
		}
		b.WriteString("\n")
	}
	x := control{Next: p.next.String(), UpToDate: p.upToDate, Closed: p.closed}
	if !p.closed {
		x.Cursor = cursorAfter(q.cursor, s.Now())
	}
	text, _ := json.Marshal(x) // strings and booleans
	b.WriteString("event: control\ndata:" + string(text) + "\n\n")
	return []byte(b.String())
}
