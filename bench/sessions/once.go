package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/effectively-once/once/bench/child"
	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

const configuration = `
streams:
  work: {admission: key, log: {retain: 1h}, pool: {partitions: 1, window: 1000}}
  fast: {admission: sequence, log: {retain: 1h}, pool: {partitions: 2, window: 20000}}
`

// serve is the server of once in a folder, at an address. The garbage collector runs as often as in
// "once server", see cmd/once/memory.go.
func serve(ctx context.Context, args []string) error {
	debug.SetGCPercent(50)
	reserve := make([]byte, 128<<20)
	defer runtime.KeepAlive(reserve)
	sys, err := embedded.Open(args[0], embedded.Options{Config: configuration, Listen: args[1], Ready: func(a string) { fmt.Println(a) }})
	if err != nil {
		return err
	}
	return errors.Join(sys.Run(ctx), sys.Close())
}

// An oncePeer is a server whose stream has a pool; each place has a session.
type oncePeer struct {
	place
	consumer string
	server   *child.Process
	client   *client.Client
}

func (p *oncePeer) open(ctx context.Context, in place) (err error) {
	p.place = in
	if p.server, err = child.Start(ctx, p.self, "serve", filepath.Join(p.dir, "once"), "127.0.0.1:0"); err != nil {
		return err
	}
	p.client, err = newClient("http://" + p.server.Line)
	return err
}

func newClient(url string) (*client.Client, error) {
	return client.New(url, client.Options{MinBackoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond})
}

func (p *oncePeer) send(ctx context.Context, ids []string) error {
	var batch []client.Message
	for _, id := range ids {
		batch = append(batch, client.Message{Stream: "work", Key: id, Body: []byte(id)})
	}
	for _, r := range p.client.SendBatch(ctx, batch) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// command names the holder by the number of replacements, so that a restarted consumer has its
// session back, and another one waits for the lease.
func (p *oncePeer) command(place, start int, restarted bool) []string {
	take := client.TakeFree
	if restarted {
		take = client.TakeMine
	}
	return []string{p.consumer, "http://" + p.server.Line, p.file(), "session-" + strconv.Itoa(place), "holder-" + strconv.Itoa(start), string(take)}
}

func (p *oncePeer) crash(ctx context.Context) (_ bool, err error) {
	address := p.server.Line
	p.server.Kill()
	p.server, err = child.Start(ctx, p.self, "serve", filepath.Join(p.dir, "once"), address)
	return true, err
}

func (p *oncePeer) rows() (*sql.DB, error) { return openRows(p.file()) }

func (p *oncePeer) close() {
	if p.server != nil {
		p.server.Kill()
	}
}
