package faultproxy

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
)

// A Doer makes requests, such as the HTTP client of the AWS SDK.
type Doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// Impatient returns a client that times out as soon as the proxy tells it to, by an early hint. A
// real timeout would be too long for tests, or too short for a busy machine. The caller sees an
// ordinary timeout. Without it, Slow and Late calls last as long as the client's own timeout.
func Impatient(d Doer) Doer { return impatient{d} }

type impatient struct{ Doer }

func (i impatient) Do(r *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { return os.ErrDeadlineExceeded }}
	return i.Doer.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// giveUp tells the client to time out.
func giveUp(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }
