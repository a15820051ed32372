package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// simulated matches the figures of one run of the room.
var simulated = regexp.MustCompile(`simulation_test\.go:\d+: (\d+ lines in .*)`)

// chat runs the simulation of a room in five regions with many seeds, and prints the figures of
// each run.
func chat(ctx context.Context, o options) error {
	seeds, lines := "10", "2000"
	if o.long {
		seeds, lines = "1000", "10000"
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-json", "-timeout=24h", "-run=^TestEveryRegionShowsEachLineOnceAndInOneOrder$",
		"./examples/chat/room", "-args", "-seeds", seeds, "-lines", lines)
	cmd.Dir, cmd.Stderr, cmd.Env = o.root, os.Stderr, append(os.Environ(), "GOGC=800")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	runs := 0
	var rest strings.Builder
	bad := eachEvent(out, func(e event) {
		_, seed, _ := strings.Cut(e.Test, "/")
		if f := simulated.FindStringSubmatch(e.Output); f != nil {
			runs++
			fmt.Printf("  %-10s %s\n", seed, f[1])
		} else if e.Action == "output" {
			rest.WriteString(e.Output)
		}
	})
	if err := errors.Join(cmd.Wait(), bad); err != nil {
		return fmt.Errorf("%w\n%s", err, rest.String())
	}
	fmt.Printf("  %d runs of %s lines, 0 violations\n", runs, lines)
	return nil
}
