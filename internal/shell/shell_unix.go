//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// shell returns the command that runs a line in a shell, as the leader of a process group.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line) //nolint:gosec // the user's own command
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// killGroup kills the process group of a leader, which may have ended.
func killGroup(leader *os.Process) {
	_ = syscall.Kill(-leader.Pid, syscall.SIGKILL)
}
