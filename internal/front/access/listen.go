package access

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/effectively-once/once/internal/config"
)

// ErrExposed is the error for an address that other machines reach, although nothing authenticates
// callers there.
var ErrExposed = errors.New("other machines reach this address, and callers are not authenticated")

// Listen opens a listener.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// ListenLoopback opens a listener that only this machine reaches. Otherwise it returns
// [ErrExposed]. It checks the bound address: a name may resolve to any address, and an empty host
// means all of them.
func ListenLoopback(ctx context.Context, address string) (net.Listener, error) {
	listener, err := Listen(ctx, address)
	if err != nil || config.Loopback(listener.Addr().String()) {
		return listener, err
	}
	return nil, errors.Join(fmt.Errorf("listen on %s: %w", listener.Addr(), ErrExposed), listener.Close())
}
