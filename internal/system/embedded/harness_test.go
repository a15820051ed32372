package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
)

// A place is a data folder and the files that its destinations write.
type place struct {
	t      *testing.T
	dir    string
	config string
	log    *slog.Logger
}

// A running system.
type running struct {
	*embedded.System
	address string
	client  *client.Client
	stop    func()
}

func (p *place) start(streams ...system.Stream) *running {
	p.t.Helper()
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		p.t.Fatal(err)
	}
	address := make(chan string, 1)
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(p.dir, "data"), Log: p.log, Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := s.Start(streams); err != nil {
		p.t.Fatal(errors.Join(err, s.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{System: s, address: <-address}
	r.stop = func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			p.t.Error(err)
		}
	}
	r.client, err = client.New("http://"+r.address, client.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// idle waits until no work is in flight.
func (r *running) idle(t *testing.T) admin.Stats {
	t.Helper()
	end := time.After(time.Minute)
	for {
		stats, err := r.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stats.Idle {
			return stats
		}
		select {
		case <-end:
			t.Fatalf("not idle after a minute: %+v", stats)
		case <-time.After(5 * time.Millisecond): // another process works; it can only be polled
		}
	}
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
