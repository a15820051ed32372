// Package inprocess lets a client call an HTTP handler of its own process, without a network.
//
// # Limits
//
// An answer is kept in memory as a whole, so it is not for streams of events.
package inprocess

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
)

// A Transport answers requests by its handler.
type Transport struct{ http.Handler }

// RoundTrip calls the handler.
func (h Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &memoryResponse{header: http.Header{}}
	served := r.Clone(r.Context())
	served.RequestURI = r.URL.RequestURI()
	served.RemoteAddr = "127.0.0.1:0"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	h.ServeHTTP(w, served)
	w.WriteHeader(http.StatusOK) // unless it was called before
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// A memoryResponse keeps a response in memory.
type memoryResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header.
func (w *memoryResponse) Header() http.Header { return w.header }

// WriteHeader sets the status once.
func (w *memoryResponse) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
}

// Write appends to the body.
func (w *memoryResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}
