package durable

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// MaxAppend limits the body of a request, in bytes.
const MaxAppend = 512 << 10

// maxField limits the headers that the record of a stream keeps, in bytes.
const maxField = 1024

// enter counts a reader that waits for entries, until leave is called. If there are too many, it
// returns a refusal.
func (s *server) enter() (leave func(), err error) {
	leave = func() { s.following.Add(-1) }
	if s.following.Add(1) > int64(s.MaxFollowing) {
		leave()
		return nil, refuse(http.StatusTooManyRequests, "Too many readers wait for entries. Read again later, or without live.", "Retry-After", "1")
	}
	return leave, nil
}

// content reads the body of a request that writes, and counts the request until leave is called. It
// counts from the end of the body on: slow senders keep no others out.
func (s *server) content(w http.ResponseWriter, r *http.Request, o *operation) (leave func(), err error) {
	for _, name := range []string{"Content-Type", "Producer-Id", "Stream-Seq", "Stream-Expires-At"} {
		if len(r.Header.Get(name)) > maxField {
			return nil, refuse(http.StatusBadRequest, fmt.Sprintf("%s may have at most %d bytes.", name, maxField))
		}
	}
	if o.principal, err = s.Principal(r); err != nil {
		return nil, err
	}
	if o.body, err = body(w, r); err != nil {
		return nil, err
	}
	leave = func() { s.writing.Add(-1) }
	if s.writing.Add(1) > int64(s.MaxWriting) {
		leave()
		return nil, refuse(http.StatusTooManyRequests, "Too many requests write. Repeat the request later.", "Retry-After", "1")
	}
	return leave, nil
}

func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxAppend {
		return nil, refuse(http.StatusRequestEntityTooLarge, "A body may have at most 524288 bytes.")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxAppend))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refuse(http.StatusRequestEntityTooLarge, "A body may have at most 524288 bytes.")
	case err != nil:
		return nil, refuse(http.StatusRequestTimeout, "The body ended early.")
	}
	return text, nil
}
