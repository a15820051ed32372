package inprocess

import (
	"errors"
	"math"
	"net/http"
)

// ErrNoRoom says that a response is larger than its [Recorder] keeps.
var ErrNoRoom = errors.New("response is larger than its limit")

// A Recorder is an [http.ResponseWriter] that keeps the response until it is whole.
type Recorder struct {
	Status int         // 0 until the handler has written
	Sent   http.Header // as it was when the status was written
	Body   []byte
	header http.Header // as the handler sees it
	room   int         // in bytes, negative if the response was too large
}

// NewRecorder returns a recorder for headers and a body of at most so many bytes; 0 is no limit.
func NewRecorder(most int) *Recorder {
	if most == 0 {
		most = math.MaxInt
	}
	return &Recorder{header: http.Header{}, room: most}
}

// Full reports whether the response was too large. Its body is not kept then.
func (w *Recorder) Full() bool { return w.room < 0 }

// Header implements [http.ResponseWriter].
func (w *Recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. It ignores informational statuses, and a second
// one.
func (w *Recorder) WriteHeader(status int) {
	if w.Status != 0 || status < 200 {
		return
	}
	w.Status, w.Sent = status, w.header.Clone()
	for name, values := range w.Sent {
		for _, v := range values {
			w.room -= len(name) + len(v)
		}
	}
}

// Write implements [http.ResponseWriter].
func (w *Recorder) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if Bodiless(w.Status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.room -= len(data); w.Full() {
		w.Body = nil
		return 0, ErrNoRoom
	}
	w.Body = append(w.Body, data...)
	return len(data), nil
}

// Bodiless reports whether a response with this status has no body.
func Bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}
