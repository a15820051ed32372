// Command webhook receives the messages of the webhook destination of once.yaml, each delivery
// effectively once. docs/webhooks.md shows both at work.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "address to receive on")
	secret := flag.String("secret", "out/webhook-secret", "file with the secret that the sender signs with")
	file := flag.String("file", "out/received.jsonl", "file that gets a line for each delivery")
	flag.Parse()
	if err := run(*listen, *secret, *file); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(1)
	}
}

func run(listen, secretFile, file string) error {
	secret, err := os.ReadFile(secretFile) //nolint:gosec // the operator names it
	if err != nil {
		return err
	}
	j, err := openJournal(file)
	if err != nil {
		return err
	}
	handler, err := receive(strings.TrimSpace(string(secret)), j, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen) //nolint:noctx // there is nothing to cancel
	if err != nil {
		return err
	}
	fmt.Printf("receiving at http://%s/hook\n", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}
