// Command once runs a system, sends messages to one, and inspects one. See once --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal requests an orderly end; a second one kills the process.
	context.AfterFunc(ctx, stop)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal:      term.IsTerminal(int(os.Stderr.Fd())),
		typed:         term.IsTerminal(int(os.Stdin.Fd())),
		env:           os.Getenv,
		openServer:    openServer,
		inspectFolder: inspectFolder,
		editFolder:    editFolder,
		repairFolder:  repairFolder,
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}
