package main

import (
	"context"
	"os"
	"os/exec"
)

// fuzzAll fuzzes every parser and every decoder of a record: for two seconds each, or for ten
// minutes.
func fuzzAll(ctx context.Context, o options) error {
	cmd := exec.CommandContext(ctx, "make", "fuzz")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = o.root, os.Stdout, os.Stderr, os.Environ()
	if o.long {
		cmd.Env = append(cmd.Env, "FUZZ_TIME=10m")
	}
	return cmd.Run()
}
