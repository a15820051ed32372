package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
)

// Routes returns the routes, as "METHOD /path".
func Routes() []string {
	var list []string
	for _, rt := range routes() {
		list = append(list, rt.method+" "+rt.path)
	}
	return list
}

// Internals used by the fuzz tests.
var (
	PreferredWait = preferredWait
	ReadHeaders   = readHeaders
)

// NewRoom, Read and Process export the bounds on the memory of batches.
func NewRoom() *room { return newRoom() }

func (r *room) Read(body io.Reader, length int64) ([]byte, func(), error) {
	return r.read(body, length)
}

func (r *room) Process(ctx context.Context, size int) (func(), error) {
	s, err := r.process(ctx, size)
	if err != nil {
		return nil, err
	}
	return s.leave, nil
}

// Body is body.
func (r *room) Body(ctx context.Context, size int) (func(), error) { return r.body(ctx, size) }

// ReadLogQuery returns the offset, the number of entries and the wait that a query asks for.
func ReadLogQuery(h http.Header, query string, longest time.Duration) (after log.Offset, limit int, wait time.Duration, err error) {
	q, err := readLogQuery(h, query, longest)
	return q.after, q.max, q.wait, err
}

// FirstRead is firstRead.
const FirstRead = firstRead

// ReadLength is readLength.
func ReadLength(from io.Reader, length int) ([]byte, error) { return readLength(from, length) }
