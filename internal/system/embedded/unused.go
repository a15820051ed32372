package embedded

import (
	"net"
	"net/http"
	"sync"
)

// unused are the connections of a server that have had no request yet. [http.Server.Shutdown] waits
// five seconds for each, in case a request is on its way. Here there is nothing to wait for: if a
// client gets no answer, it sends again, to the next process.
type unused struct {
	mu          sync.Mutex
	ending      bool
	connections map[net.Conn]struct{}
}

// closeUnused makes a server close its unused connections when it shuts down.
func closeUnused(server *http.Server) {
	u := &unused{connections: map[net.Conn]struct{}{}}
	server.ConnState = u.note
	server.RegisterOnShutdown(u.close) // which is called when no new ones are accepted
}

func (u *unused) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.connections, c)
		return
	}
	if u.ending { // accepted just before the listener closed
		_ = c.Close()
		return
	}
	u.connections[c] = struct{}{}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ending = true
	for c := range u.connections {
		_ = c.Close()
	}
}
