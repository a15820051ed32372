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
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// The first signal requests an orderly end; a second one kills the process.
	context.AfterFunc(ctx, stop)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal:      term.IsTerminal(int(os.Stderr.Fd())),
		watched:       term.IsTerminal(int(os.Stdout.Fd())),
		typed:         term.IsTerminal(int(os.Stdin.Fd())),
		env:           os.Getenv,
		openServer:    openServer,
		inspectFolder: inspectFolder,
		editFolder:    editFolder,
		repairFolder:  repairFolder,
		serveFolder:   serveFolder,
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}
