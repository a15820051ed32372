package api

import (
	"context"
	"io"
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

func (r *room) Process(ctx context.Context, size int) (func(), error) { return r.process(ctx, size) }
