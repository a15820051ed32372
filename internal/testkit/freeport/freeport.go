// Package freeport finds addresses for servers of tests.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// Address returns an address that nothing listens on. Its port is below those that the kernel gives to
// connections and to servers that ask for any port: while the server is down, another could get such a
// port, and a client even connect to itself. It is above 10080, the last one that browsers refuse.
func Address(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprint("127.0.0.1:", 10_100+rand.IntN(20_000))
		listener, err := net.Listen("tcp", address)
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
