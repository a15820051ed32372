package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/effectively-once/once/examples/chat/room"
)

//go:embed page.html
var page []byte

// handler serves the page, and the network between the regions.
func (w *world) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'")
		_, _ = rw.Write(page)
	})
	mux.HandleFunc("GET /regions", w.listRegions)
	mux.HandleFunc("GET /rooms/{region}", w.events)
	mux.HandleFunc("POST /rooms/{region}", w.say)
	mux.HandleFunc("PUT /cut/{region}", w.cut)
	mux.HandleFunc("DELETE /cut/{region}", w.cut)
	return http.NewCrossOriginProtection().Handler(mux)
}

func answer(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v) // the reader has gone
}

func (w *world) listRegions(rw http.ResponseWriter, _ *http.Request) {
	type state struct {
		Name string `json:"name"`
		Off  bool   `json:"off"`
	}
	off := w.network.cutOff()
	var out []state
	for _, name := range names {
		out = append(out, state{name, slices.Contains(off, name)})
	}
	answer(rw, out)
}

func (w *world) cut(rw http.ResponseWriter, r *http.Request) {
	if w.regions[r.PathValue("region")] == nil {
		http.NotFound(rw, r)
		return
	}
	w.network.cut(r.PathValue("region"), r.Method == http.MethodPut)
	w.listRegions(rw, r)
}

// said is the request of the page.
type said struct {
	By      string `json:"by"`
	Text    string `json:"text"`
	Answers string `json:"answers"`
}

// say writes a line. 202 means that it is in the outbox of the person: it is sent until the region
// has it.
func (w *world) say(rw http.ResponseWriter, r *http.Request) {
	at := w.regions[r.PathValue("region")]
	var s said
	switch err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 16<<10)).Decode(&s); {
	case at == nil:
		http.NotFound(rw, r)
		return
	case err != nil || s.By == "" || s.Text == "" || len(s.By) > 40:
		http.Error(rw, "a name and a text are required", http.StatusBadRequest)
		return
	}
	var answers []room.Heard
	if s.Answers != "" {
		h, ok := at.find(s.Answers)
		if !ok {
			http.Error(rw, "the line that it answers is not in this region", http.StatusConflict)
			return
		}
		answers = append(answers, h)
	}
	if err := w.write(r.Context(), at, s.By, s.Text, answers); err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	rw.WriteHeader(http.StatusAccepted)
}

// A row is a line as the page gets it.
type row struct {
	ID      string `json:"id"`
	Above   string `json:"above"` // the row above it, or ""
	Depth   int    `json:"depth"`
	Late    bool   `json:"late"`
	By      string `json:"by"`
	Region  string `json:"region"`
	Text    string `json:"text"`
	At      string `json:"at"`
	Answers string `json:"answers"`
}

func rowOf(e *event) row {
	r := row{
		ID: e.ID, Above: e.above, Depth: e.Depth, Late: e.Late, By: e.By, Region: e.Region, Text: e.Text, At: e.At.String(),
	}
	if len(e.Answers) > 0 {
		r.Answers = e.Answers[0]
	}
	return r
}

// events sends the screen of a region, row by row, as server-sent events. The id of an event is how
// many rows were sent, so that a browser that comes back continues there.
func (w *world) events(rw http.ResponseWriter, r *http.Request) {
	at := w.regions[r.PathValue("region")]
	if at == nil {
		http.NotFound(rw, r)
		return
	}
	n, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // from the beginning if there is none
	n = max(n, 0)
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(rw)
	for {
		rows, more := at.after(n)
		for i := range rows {
			n++
			data, err := json.Marshal(rowOf(&rows[i]))
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(rw, "id: %d\ndata: %s\n\n", n, data); err != nil {
				return
			}
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-w.ending:
			return
		case <-more:
		}
	}
}
