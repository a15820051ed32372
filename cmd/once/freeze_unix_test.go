//go:build unix

package main

import (
	"os"
	"syscall"
)

// freeze stops a process until thaw.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
