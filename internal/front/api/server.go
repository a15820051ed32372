package api

import (
	"net/http"
	"time"
)

// Limits of [Server] on slow and on large callers.
const (
	readHeaderTimeout = 10 * time.Second // for the whole header
	readTimeout       = 30 * time.Second // for header and body
	idleTimeout       = 2 * time.Minute  // between requests of one connection
	// writeTimeout runs from the end of the header: it is longer than reading, waiting ([MaxWait])
	// and answering take.
	writeTimeout   = readTimeout + MaxWait + 30*time.Second
	MaxHeaderBytes = 32 << 10
)

// Server returns an HTTP server that no slow caller can hold: if a caller sends half a header or
// half a body, or does not read the answer, it is cut off when the time for it is over. The limits
// are the package's constants; the program may change them before it serves.
func Server(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
	}
}
