package once

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// A recorder is the ResponseWriter of a handler behind [Middleware]. It buffers the response.
type recorder struct {
	header http.Header // as the handler sees it
	room   int         // the remaining space for the response, in bytes
	status int         // 0 until the handler has written
	sent   http.Header // as it was when the status was written
	body   []byte
}

var errNoRoom = errors.New("reply is larger than the middleware's MaxReply")

func (rec *recorder) Header() http.Header { return rec.header }

func (rec *recorder) WriteHeader(status int) {
	if rec.status != 0 || status < 200 { // informational responses are neither stored nor sent
		return
	}
	rec.status = status
	rec.sent = rec.header.Clone()
	for name, values := range rec.sent {
		for _, v := range values {
			rec.room -= len(name) + len(v)
		}
	}
}

func (rec *recorder) Write(data []byte) (int, error) {
	rec.WriteHeader(http.StatusOK)
	if bodiless(rec.status) {
		return 0, http.ErrBodyNotAllowed
	}
	rec.room -= len(data)
	if rec.room < 0 {
		rec.body = nil
		return 0, errNoRoom
	}
	rec.body = append(rec.body, data...)
	return len(data), nil
}

func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// reply splits the response into the part to store and the headers that only the first response
// has. It returns nil if the response was too large.
func (rec *recorder) reply() (*record.Reply, http.Header) {
	rec.WriteHeader(http.StatusOK)
	if rec.room < 0 {
		return nil, nil
	}
	kept, once := rec.sent, http.Header{}
	for _, name := range []string{"Date", "Set-Cookie", "Connection"} {
		if values, ok := kept[name]; ok {
			once[name] = values
		}
	}
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return unkeptHeader(name, once["Connection"]) })
	if _, typed := kept["Content-Type"]; !typed && len(rec.body) > 0 && kept.Get("Content-Encoding") == "" {
		kept.Set("Content-Type", http.DetectContentType(rec.body)) // as net/http would
	}
	return &record.Reply{Status: rec.status, Header: kept, Body: rec.body}, once
}

// unkeptHeader reports whether a field belongs to one connection, one moment or one receiver.
func unkeptHeader(name string, connection []string) bool {
	if !record.IsKeptHeader(name) {
		return true
	}
	return slices.ContainsFunc(connection, func(options string) bool {
		return slices.ContainsFunc(strings.Split(options, ","), func(option string) bool {
			return strings.EqualFold(strings.TrimSpace(option), name)
		})
	})
}

// answer writes a reply with additional headers. If outer middleware has set the same header, the
// reply's value wins.
func answer(w http.ResponseWriter, r *record.Reply, more http.Header) {
	h := w.Header()
	maps.Copy(h, r.Header)
	maps.Copy(h, more)
	if !bodiless(r.Status) {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // if the client is gone, there is no reader
}
