package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// figures matches the figures that a test prints; see history.Figures.
var figures = regexp.MustCompile(`(\d+) histories, (\d+) operations, (\d+) answers lost, (\d+) violations, (\d+) undecided`)

// histories calls every store and queue concurrently, a million times and more in the long form,
// and checks that one order of the calls explains all results. It starts the emulators of AWS,
// unless the environment names other endpoints.
func histories(ctx context.Context, o options) error {
	args := []string{
		"go", "test", "-count=1", "-json", "-p=1", "-timeout=12h", "-run=^TestHistories(OfSessions)?AreLinearizable$",
		"./internal/dedup/memstore", "./internal/dedup/pebblestore", "./internal/dedup/dynamostore", "./internal/dedup/session", "./internal/queue/pebblequeue", "./internal/queue/sqsqueue",
	}
	if o.long {
		args = append(args, "-args", "-long")
	}
	args = emulated("localstack/aws.sh", args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = o.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Printf("  %-28s %10s %10s %10s %10s %9s\n", "", "calls", "histories", "lost", "violations", "undecided")
	all, said, err := printHistories(out)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("%w\n%s%s", err, said, stderr.String())
	}
	fmt.Printf("  %-28s %10d\n", "all", all)
	return nil
}

// printHistories prints the figures of each test as they arrive, and returns the other output. A
// skipped test is an error, and so is a package without a test.
func printHistories(events io.Reader) (all int, said string, err error) {
	var rest strings.Builder
	played := map[string]bool{}
	bad := eachEvent(events, func(e event) {
		_, name, _ := strings.Cut(e.Package, "/internal/")
		f := figures.FindStringSubmatch(e.Output)
		switch {
		case e.Action == "skip" && e.Test != "":
			err = errors.Join(err, fmt.Errorf("%s was skipped", name))
		case e.Test == "" && (e.Action == "pass" || e.Action == "skip") && !played[e.Package]:
			err = errors.Join(err, fmt.Errorf("%s has no histories", name))
		case f != nil:
			played[e.Package] = true
			if _, kind, ok := strings.Cut(e.Test, "/"); ok {
				name += " " + kind
			}
			fmt.Printf("  %-28s %10s %10s %10s %10s %9s\n", name, f[2], f[1], f[3], f[4], f[5])
			calls, _ := strconv.Atoi(f[2]) // digits only
			all += calls
		case e.Action == "output" || e.Action == "build-output":
			rest.WriteString(e.Output)
		}
	})
	return all, rest.String(), errors.Join(err, bad)
}
