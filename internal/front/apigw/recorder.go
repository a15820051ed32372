package apigw

import (
	"bytes"
	"encoding/base64"
	"maps"
	"net/http"
	"unicode/utf8"
)

// recorder keeps an answer until it is whole: Lambda does not stream it.
type recorder struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return // a second status changes nothing; informational ones can't be sent
	}
	w.status, w.sent = status, maps.Clone(w.header)
	for name, values := range w.sent {
		if len(values) == 0 {
			delete(w.sent, name)
		}
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return w.body.Write(p)
}

// text returns the body as the events hold it: text, or base64 if it is not UTF-8.
func (w *recorder) text() (body string, encoded bool) {
	if utf8.Valid(w.body.Bytes()) {
		return w.body.String(), false
	}
	return base64.StdEncoding.EncodeToString(w.body.Bytes()), true
}
