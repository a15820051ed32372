// Package freeport finds addresses for servers of tests.
package freeport

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"syscall"
	"testing"
)

// Address returns an address that nothing listens on, with a port from 10100 to 30099. The kernel
// takes higher ports for connections and for servers that ask for any port. While the server of a
// test is down, another process could get such a port, and a client could even connect to itself.
// Browsers refuse some ports up to 10080.
func Address(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	for {
		n, err := rand.Int(rand.Reader, big.NewInt(20_000))
		if err != nil {
			t.Fatal(err)
		}
		address := fmt.Sprint("127.0.0.1:", 10_100+n.Int64())
		listener, err := config.Listen(t.Context(), "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
}
