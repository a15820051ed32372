package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/effectively-once/once/embedded"
)

const stream = "work"

const configuration = `
streams:
  work: {admission: key, log: {retain: 1d}, pool: {partitions: 1, window: 4000}}
`

// serve is the server process: it prints its address when it is ready.
func serve(dir, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sys, err := embedded.Open(dir, embedded.Options{Config: configuration, Listen: address, Ready: func(a string) { fmt.Println(a) }})
	if err != nil {
		return err
	}
	return errors.Join(sys.Run(ctx), sys.Close())
}

// A server is a server process that can be killed and started again at the same address.
type server struct {
	self, dir string
	address   string
	process   *process
}

func (s *server) start(ctx context.Context) (err error) {
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	if s.process, err = start(ctx, s.self, "serve", s.dir, s.address); err != nil {
		return err
	}
	s.address, err = s.process.await(ctx, func(line string) bool { return strings.HasPrefix(line, "127.0.0.1:") })
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	return nil
}

func (s *server) url() string { return "http://" + s.address }
