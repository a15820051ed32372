package shell

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// Command returns the command that runs a line in cmd.exe, as the leader of a process group.
func Command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /S /C "` + line + `"`, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	return cmd
}

// Kill kills a process and those that it has started. If the process has ended, those that it
// has left running are not found.
func Kill(leader *os.Process) {
	_ = exec.Command("taskkill.exe", "/T", "/F", "/PID", strconv.Itoa(leader.Pid)).Run() //nolint:gosec,noctx // a number; it takes a moment
	_ = leader.Kill()
}
