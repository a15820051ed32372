package embedded

import "net/http"

// Server returns the server of the listener.
func (s *System) Server() *http.Server { return s.server() }
