// Package memnet is a network in memory for tests with virtual time: in the bubble of package
// synctest, a goroutine that waits for a real connection keeps the clock from moving.
package memnet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// A Network has listeners on a loopback address. Listeners and connections must be made in the
// bubble that uses them.
type Network struct {
	mu        sync.Mutex
	listeners []*Listener
}

// Listen returns a listener on the next port.
func (n *Network) Listen() *Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &Listener{port: len(n.listeners) + 1, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners = append(n.listeners, l)
	return l
}

// Serve starts a server, whose client is connected to the network.
func (n *Network) Serve(config *http.Server) *httptest.Server {
	s := &httptest.Server{Listener: n.Listen(), Config: config}
	s.Start()
	s.Client().Transport.(*http.Transport).DialContext = n.Dial
	return s
}

// Transport returns a transport that is connected to the network.
func (n *Network) Transport() *http.Transport { return &http.Transport{DialContext: n.Dial} }

// Dial connects to a listener.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	listeners := n.listeners
	n.mu.Unlock()
	for _, l := range listeners {
		if l.Addr().String() == address {
			return l.Dial(ctx, "", "")
		}
	}
	return nil, fmt.Errorf("nothing listens on %s", address)
}

// A Listener accepts the connections that Dial makes.
type Listener struct {
	port   int
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Dial connects to this listener, whatever the address is.
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
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.port} }
