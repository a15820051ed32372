package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// tryMutants makes small faults outside the engine, one at a time: a sample of them, or all in the
// long form. It starts the emulators that some of the tests need, unless the environment names
// others.
func tryMutants(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	table := filepath.Join(folder, "table.md")
	args := []string{"go", "run", "./mutants", "-table", table}
	if o.long {
		args = append(args, "-sample=0")
	}
	args = emulated("../localstack/aws.sh", args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // own arguments
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(o.root, "prove"), os.Stdout, os.Stderr
	err = cmd.Run()
	text, missing := os.ReadFile(table) //nolint:gosec // own file
	if err = errors.Join(err, missing); err != nil || o.long {
		return err
	}
	if err := o.documented("mutants", string(text)); err != nil {
		return fmt.Errorf("document the score: %w", err)
	}
	return nil
}
