package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listener returns the id of the process that listens on the port of an address, or 0 if it is not
// known: it is found in /proc, and only if it belongs to the same user.
func listener(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	if err != nil {
		return 0
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listening(table, n, sockets)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // fails only for an invalid pattern
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && sockets[target] {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			return pid
		}
	}
	return 0
}

// listening adds the sockets of a table of the kernel that listen on a port.
func listening(table string, port int, sockets map[string]bool) {
	f, err := os.Open(table) //nolint:gosec // one of two constants
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// number, local address, remote address, state, …, inode as the tenth
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == "0A" {
			sockets["socket:["+fields[9]+"]"] = true
		}
	}
}

// process names a process by its id, if it is known.
func process(pid int) string {
	if pid == 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}
