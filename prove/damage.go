package main

import (
	"context"
	"os"
	"os/exec"
)

// damage runs the tests of damaged data folders and of power failures in their long form. They
// print what became of each kind of file.
func damage(ctx context.Context, o options) error {
	for _, run := range [][2]string{
		{"./internal/pebbledb", "Damage|NoCrash"},
		{"./internal/system/embedded", "DamageOf|OutlivesAny"},
	} {
		cmd := exec.CommandContext(ctx, "go", "test", run[0], "-count=1", "-v", "-run", run[1], "-timeout=30m", "-long") //nolint:gosec // of this table
		cmd.Dir, cmd.Stdout, cmd.Stderr = o.root, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}
