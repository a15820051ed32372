package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// A place is a data folder and the files that its destinations write.
type place struct {
	t      *testing.T
	dir    string
	config string
	log    *slog.Logger
	// net replaces the real network, for tests with virtual time.
	net *memnet.Network
}

// data returns the data folder. In virtual time its path is too long for a socket: a system that
// waits for a real connection keeps the clock from moving.
func (p *place) data() string {
	if p.net != nil {
		return filepath.Join(p.dir, "data"+strings.Repeat("-", 120))
	}
	return filepath.Join(p.dir, "data")
}

// A running system.
type running struct {
	*embedded.System
	address string
	http    *http.Client
	client  *client.Client
	stop    func()
}

func (p *place) parsed() *config.Config {
	p.t.Helper()
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *place) start(streams ...system.Stream) *running {
	p.t.Helper()
	c := p.parsed()
	address := make(chan string, 1)
	o := embedded.Options{Config: c, DataDir: p.data(), Log: p.log, Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }}
	if p.net != nil {
		o.Listen, o.Transport = "", p.net.Transport()
	}
	s, err := embedded.Open(o)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := s.Start(streams); err != nil {
		p.t.Fatal(errors.Join(err, s.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{System: s, address: <-address, http: http.DefaultClient}
	closeServer := func() {}
	if p.net != nil {
		server := p.net.Serve(&http.Server{Handler: s.Handler()})
		r.address, r.http, closeServer = server.Listener.Addr().String(), server.Client(), server.Close
	}
	r.stop = func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			p.t.Error(err)
		}
		closeServer()
	}
	r.client, err = client.New("http://"+r.address, client.Options{HTTP: r.http})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// idle waits until no work is in flight.
func (r *running) idle(t *testing.T) (stats admin.Stats) {
	t.Helper()
	eventually.Succeeds(t, func() (err error) {
		if stats, err = r.Stats(t.Context()); err == nil && !stats.Idle {
			err = fmt.Errorf("not idle: %+v", stats)
		}
		return err
	})
	return stats
}

func (r *running) send(t *testing.T, m client.Message) client.Receipt {
	t.Helper()
	receipt, err := r.client.Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// A line of a file destination.
type line struct {
	Stream   string
	Group    string
	Number   uint64
	ID       string
	Source   string
	Epoch    uint64
	Sequence uint64
	Headers  map[string]string
	Body     any
	Binary   []byte `json:"body_base64"`
}

func (p *place) lines() []line {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, "ledger.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without a line there may be no file yet
		p.t.Fatal(err)
	}
	var out []line
	for text := range strings.Lines(string(content)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			p.t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

const forwarding = `
streams:
  orders: {destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`
