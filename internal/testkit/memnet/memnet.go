// Package memnet is a network in memory for tests with virtual time: in the bubble of package
// synctest, a goroutine that waits for a real connection keeps the clock from moving.
package memnet

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// A Listener accepts the connections that Dial makes. It reports a loopback address, as a listener
// on a port of this machine would.
type Listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Listen returns a listener. In a bubble it must be called in the bubble.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Serve starts a server, whose client is connected to it in memory.
func Serve(config *http.Server) *httptest.Server {
	l := Listen()
	s := &httptest.Server{Listener: l, Config: config}
	s.Start()
	s.Client().Transport.(*http.Transport).DialContext = l.Dial
	return s
}

// Dial connects to the listener, whatever the address is.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
