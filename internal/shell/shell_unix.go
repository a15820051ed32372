//go:build unix

package shell

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// Command returns the command that runs a line in a shell, as the leader of a process group.
func Command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line) //nolint:gosec // the user's own command
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Kill kills the process group of a leader, which may have ended.
func Kill(leader *os.Process) {
	_ = syscall.Kill(-leader.Pid, syscall.SIGKILL)
}
