package access_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/front/access"
)

func TestAListenerForThisMachineIsJudgedByItsBoundAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		local   bool
	}{
		{"127.0.0.1:0", true},
		{"127.0.0.2:0", true},
		{"localhost:0", true},
		{"[::1]:0", true},
		{"[::ffff:127.0.0.1]:0", true},
		{"", false},
		{":0", false},
		{"0.0.0.0:0", false},
		{"[::]:0", false},
		{"[::ffff:0.0.0.0]:0", false},
		{"[0:0:0:0:0:0:0:0]:0", false},
		{outside(t), false},
	} {
		listener, err := access.ListenLoopback(t.Context(), c.address)
		if err == nil {
			if err := listener.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, missing := errors.AsType[*net.OpError](err); missing && strings.Contains(c.address, "::") {
			t.Logf("%s: this machine has no such address: %v", c.address, err)
			continue
		}
		if c.local != (err == nil) || !c.local && !errors.Is(err, access.ErrExposed) {
			t.Errorf("%q: %v, want it to be opened: %t", c.address, err, c.local)
		}
		if err == nil {
			continue
		}
		// "listen on ADDRESS: …": the refused listener is closed, so that its address is free
		bound, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "listen on "), ": ")
		again, err := access.Listen(t.Context(), bound)
		if err != nil {
			t.Errorf("%q: %v, want its listener to be closed", c.address, err)
			continue
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// outside returns an address of this machine that others reach, or one for all of its addresses if
// it has no network.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return net.JoinHostPort(ip.IP.String(), "0")
		}
	}
	return "0.0.0.0:0"
}
