// Command chat runs one room in five regions: five systems in this process, linked by a network
// that can cut a region off, and a page that shows them side by side. See docs/order.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/effectively-once/once/internal/front/access"
)

var names = []string{"africa", "america", "asia", "europe", "oceania"} //nolint:gochecknoglobals // a constant

func main() {
	var o options
	flag.StringVar(&o.data, "data", "", "folder of the five systems; by default a temporary one, which is removed at the end")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8090", "address of the page")
	flag.DurationVar(&o.latency, "latency", 40*time.Millisecond, "how long a request takes between two regions, one way")
	flag.IntVar(&o.people, "people", 0, "people who write by themselves, spread over the regions")
	flag.DurationVar(&o.length, "for", 0, "end after this time; 0 is until the program is interrupted")
	flag.StringVar(&o.cut, "cut", "", "region that is cut off for the second quarter of the time: "+strings.Join(names, ", "))
	flag.StringVar(&o.diagram, "diagram", "", "file for a space-time diagram of the last lines, as SVG")
	flag.Parse()
	if err := o.check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

type options struct {
	data, listen, cut, diagram string
	latency, length            time.Duration
	people                     int
}

// check returns an error about a command line that can't be run.
func (o *options) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q: there are only flags, see --help", args[0])
	case o.cut != "" && !slices.Contains(names, o.cut):
		return fmt.Errorf("--cut %s: there is no such region; choose one of %s", o.cut, strings.Join(names, ", "))
	case o.cut != "" && o.length <= 0:
		return fmt.Errorf("--cut %s needs --for: the region is cut off for the second quarter of that time", o.cut)
	}
	return nil
}

func run(ctx context.Context, o options) (err error) {
	if o.data == "" {
		if o.data, err = os.MkdirTemp("", "chat"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.data)) }()
	}
	listener, err := access.ListenLoopback(ctx, o.listen)
	if err != nil {
		return err
	}
	w, err := open(ctx, o)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	fmt.Printf("the room is at http://%s\n", listener.Addr())
	if o.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.length)
		defer cancel()
	}
	err = errors.Join(w.serve(ctx, listener), w.close())
	fmt.Print(w.report())
	if o.diagram != "" {
		err = errors.Join(err, w.draw(o.diagram))
	}
	return err
}
