package api

import (
	"io"
	"net/http"
	"time"
)

// Limits of [Server] on slow and on large callers.
const (
	readHeaderTimeout = 10 * time.Second // for the whole header
	readTimeout       = 30 * time.Second // for header and body, and longer for a large body
	// stepTime is how long a large body may take for each further step of bytes, when readTimeout
	// is over: 120 kbit/s are enough.
	step        = 128 << 10
	stepTime    = 10 * time.Second
	idleTimeout = 2 * time.Minute // between requests of one connection
	// writeTimeout runs from the end of the header: it is longer than reading, waiting ([MaxWait])
	// and answering take.
	writeTimeout   = readTimeout + MaxWait + 30*time.Second
	MaxHeaderBytes = 32 << 10
)

// Server returns an HTTP server that no slow caller can hold: if a caller sends half a header or
// half a body, or does not read the answer, it is cut off when the time for it is over. A large
// body may take longer, as long as it keeps coming. The limits are the package's constants; the
// program may change them before it serves.
func Server(addr string, h http.Handler) *http.Server {
	server := &http.Server{
		Addr:              addr,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody && server.ReadTimeout > 0 {
			r.Body = &pacedBody{ReadCloser: r.Body, server: server, deadlines: http.NewResponseController(w), until: time.Now().Add(server.ReadTimeout), next: step} //nolint:forbidigo // the deadline of a connection
		}
		h.ServeHTTP(w, r)
	})
	return server
}

// A pacedBody is the body of a request that moves the deadlines of the request while it comes.
// Without that, no body of 1 MiB could come over a link of 256 kbit/s, however often its sender
// repeated it. Bytes that came early give no further time: who stops sending is cut off within
// stepTime.
type pacedBody struct {
	io.ReadCloser
	server    *http.Server
	deadlines *http.ResponseController
	until     time.Time // the deadline for reading, at least from the first step on
	read      int64
	next      int64 // bytes after which the deadlines are moved
}

// Read implements [io.Reader]. At the end of the body the server itself removes the deadline for
// reading, so it is not set again there.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); err != nil || b.read < b.next {
		return n, err
	}
	b.next = b.read + step
	if until := time.Now().Add(stepTime); until.After(b.until) { //nolint:forbidigo // the deadline of a connection
		b.until = until
	}
	// A connection without deadlines keeps those that it has.
	_ = b.deadlines.SetReadDeadline(b.until)
	if b.server.WriteTimeout > 0 {
		_ = b.deadlines.SetWriteDeadline(b.until.Add(b.server.WriteTimeout - b.server.ReadTimeout))
	}
	return n, nil
}
