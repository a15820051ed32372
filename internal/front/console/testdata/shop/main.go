// Command shop is a system with a handler that fails, for checks of the console in a browser. Its
// configuration is once.yaml in the working folder. Bookings fail or are refused until there is a
// file named healed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
)

func main() {
	o := embedded.Options{ConfigFile: "once.yaml"}
	flag.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address")
	console := flag.String("console", "read", "setting of the console")
	flag.Parse()
	o.Console = embedded.Console(*console)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run(o embedded.Options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sys, err := embedded.Open(".once", o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	once.Handle(sys, "bookings", book)
	return sys.Run(ctx)
}

func book(_ context.Context, a *once.Attempt[int], m once.Message) error {
	_, err := os.Stat("healed")
	healed := err == nil
	switch body := string(m.Body); {
	case body == "busy" && !healed:
		return errors.New("database is restarting")
	case body == "full" && !healed:
		return once.Reject("no room is left", nil)
	}
	a.State++
	a.Reply(http.StatusOK, once.JSON(map[string]int{"bookings": a.State}))
	return nil
}
