package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/freeport"
)

func TestTheConsoleOfAStackListensOnALoopbackAddressOnly(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ args, want string }{
		{"console", "name the deployed system with --stack"},
		{"console --stack Once --listen :8090", `--listen ":8090" must be a loopback address`},
		{"console --stack Once --listen 0.0.0.0:8090", "must be a loopback address"},
		{"console --stack Once --listen 10.0.0.1:8090", "must be a loopback address"},
		{"console --stack Once --listen 8090", "must be HOST:PORT"},
		{"console Once", "unknown command"},
	} {
		if code := w.once(t.Context(), "", strings.Fields(c.args)...); code != exitUsage || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("once %s: exit %d, %s; want exit %d and %q", c.args, code, w.err.String(), exitUsage, c.want)
		}
	}
}

func TestTheConsoleOfAStackIsServedUntilItIsInterrupted(t *testing.T) {
	deployedStack(t)
	w := newWorld(t)
	address := freeport.Address(t)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if code := w.once(t.Context(), "", "console", "--stack", "Once", "--listen", address); code != exitAway || !strings.Contains(w.err.String(), "is in use") {
		t.Errorf("a used address: exit %d, %s", code, w.err.String())
	}
	_ = listener.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan int, 1)
	go func() {
		ended <- w.once(ctx, "", "console", "--stack", "Once", "--listen", address, "--region", "us-east-1")
	}()
	get := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	eventually.Succeeds(t, func() error {
		status, body := get("/")
		if status != http.StatusOK || !strings.Contains(body, "Once in us-east-1") || !strings.Contains(body, "once show --stack Once --region us-east-1") {
			return fmt.Errorf("the console is not served: %d %s", status, body)
		}
		return nil
	})
	if status, body := get("/console/streams"); status != http.StatusOK || !strings.Contains(body, "orders") || !strings.Contains(body, "chat") {
		t.Errorf("the streams of the stack: %d %s", status, body)
	}
	interrupt()
	if code := <-ended; code != exitOK || !strings.Contains(w.err.String(), "the console of Once is at http://"+address+"/console\n") {
		t.Errorf("after the interrupt: exit %d, %s", code, w.err.String())
	}
}
