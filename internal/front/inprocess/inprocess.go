// Package inprocess calls an HTTP handler without a network: for a client of the same process, and
// for a caller that needs the response as a whole.
//
// # Limits
//
// An answer is kept in memory as a whole, so it is not for streams of events.
package inprocess

import (
	"bytes"
	"io"
	"net/http"
)

// A Transport answers requests by its handler.
type Transport struct{ http.Handler }

// RoundTrip calls the handler.
func (h Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := NewRecorder(0)
	served := r.Clone(r.Context())
	served.RequestURI = r.URL.RequestURI()
	served.RemoteAddr = "127.0.0.1:0"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	h.ServeHTTP(w, served)
	w.WriteHeader(http.StatusOK) // unless it was called before
	return &http.Response{
		Status: http.StatusText(w.Status), StatusCode: w.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.Sent, Body: io.NopCloser(bytes.NewReader(w.Body)), ContentLength: int64(len(w.Body)), Request: r,
	}, nil
}
