//go:build unix

package host

import "syscall"

// freeze stops the process: it neither answers nor ends until the timeout kills it.
func (i *Instance) freeze() {
	if p := i.current(); p != nil && !p.over() {
		_ = p.command.Process.Signal(syscall.SIGSTOP) // it may have ended meanwhile
	}
}
