package embedded

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// connections bounds the open connections of a server. If there is one too many, the connection
// without a request for the longest time is closed, so that idle and very slow clients can't keep
// others away. If all are busy, the new one is closed.
type connections struct {
	limit int

	mu   sync.Mutex
	open map[net.Conn]*connection
	idle *list.List // of net.Conn without a request, the longest idle first
}

type connection struct {
	requests int           // that are served now
	idle     *list.Element // nil while there are some
}

type connectionKey struct{}

// limitConnections bounds the connections of a server.
func limitConnections(server *http.Server, limit int) {
	c := &connections{limit: limit, open: map[net.Conn]*connection{}, idle: list.New()}
	before := server.ConnState
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if before != nil {
			before(conn, state)
		}
		c.note(conn, state)
	}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, conn)
	}
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
		c.begin(conn)
		defer c.end(conn)
		next.ServeHTTP(w, r)
	})
}

func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(c.open) >= c.limit {
			c.makeRoom(conn)
		}
		c.open[conn] = &connection{idle: c.idle.PushBack(conn)}
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	case http.StateActive, http.StateIdle:
	}
}

// makeRoom closes the connection that has been idle for longest, or the new one.
func (c *connections) makeRoom(newest net.Conn) {
	front := c.idle.Front()
	if front == nil {
		_ = newest.Close()
		return
	}
	conn := front.Value.(net.Conn)
	c.forget(conn)
	go func() { _ = conn.Close() }() // of TLS it sends an alert, which may wait
}

func (c *connections) forget(conn net.Conn) {
	if known := c.open[conn]; known != nil && known.idle != nil {
		c.idle.Remove(known.idle)
	}
	delete(c.open, conn)
}

func (c *connections) begin(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil {
		return
	}
	if known.requests++; known.idle != nil {
		c.idle.Remove(known.idle)
		known.idle = nil
	}
}

func (c *connections) end(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil {
		return
	}
	if known.requests--; known.requests == 0 {
		known.idle = c.idle.PushBack(conn)
	}
}
