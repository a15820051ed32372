package api

import (
	_ "embed"
	"net/http"
	"strconv"
)

//go:embed openapi.json
var document []byte

// OpenAPI returns the OpenAPI 3.1 document of the contract. The caller must not change it.
func OpenAPI() []byte { return document }

func (s *server) openapi(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document)
	return nil
}

// health answers 200 if requests can be served.
func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	if err := s.Ready(r.Context()); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}
