package once

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/front/inprocess"
	"github.com/effectively-once/once/internal/record"
)

// recorded splits a response into the part to store and the headers that only the first response
// has. It returns nil if the response was too large.
func recorded(rec *inprocess.Recorder) (*record.Reply, http.Header) {
	rec.WriteHeader(http.StatusOK)
	if rec.Full() {
		return nil, nil
	}
	kept, once := rec.Sent, http.Header{}
	for _, name := range []string{"Date", "Set-Cookie", "Connection"} {
		if values, ok := kept[name]; ok {
			once[name] = values
		}
	}
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return unkeptHeader(name, once["Connection"]) })
	if _, typed := kept["Content-Type"]; !typed && len(rec.Body) > 0 && kept.Get("Content-Encoding") == "" {
		kept.Set("Content-Type", http.DetectContentType(rec.Body)) // as net/http would
	}
	return &record.Reply{Status: rec.Status, Header: kept, Body: rec.Body}, once
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
	if !inprocess.Bodiless(r.Status) {
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // if the client is gone, there is no reader
}
