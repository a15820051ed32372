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
	ctx := until(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal:      term.IsTerminal(int(os.Stderr.Fd())),
		watched:       term.IsTerminal(int(os.Stdout.Fd())),
		typed:         term.IsTerminal(int(os.Stdin.Fd())),
		env:           os.Getenv,
		untilHangup:   untilHangup,
		openServer:    openServer,
		inspectFolder: inspectFolder,
		editFolder:    editFolder,
		repairFolder:  repairFolder,
		serveFolder:   serveFolder,
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// until returns a context that ends with a signal: the first one requests an orderly end, and a
// second one kills the process.
func until(ctx context.Context, signals ...os.Signal) context.Context {
	ctx, stop := signal.NotifyContext(ctx, signals...)
	context.AfterFunc(ctx, stop)
	return ctx
}

func untilHangup(ctx context.Context) context.Context {
	if signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		return ctx
	}
	return until(ctx, syscall.SIGHUP)
}
