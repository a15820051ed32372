package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	var locked, n int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &n} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

func TestDevOnATerminalShowsEachMessageAndDrainsWhenTheTerminalIsClosed(t *testing.T) {
	user, program := openTerminal(t)
	dir := t.TempDir()
	// if nohup started the tests, the server would ignore the hangup, too
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := command(ctx, "dev", "--listen", "127.0.0.1:0")
	server.Dir, server.Stdout, server.Stderr = dir, program, program
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	shown := &output{more: make(chan struct{})}
	go func() {
		r := bufio.NewReader(user)
		for {
			line, err := r.ReadBytes('\n')
			_, _ = shown.Write(line)
			if err != nil {
				return // the program has closed its end
			}
		}
	}()
	url := shown.await(t, `once is ready at (\S+)`)[1]
	send := func(ctx context.Context) {
		out, err := command(ctx, "send", "messages", "1", "--key", "order-1", "--group", "customer-7", "--url", url).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	send(t.Context())
	shown.await(t, `(?m)^\d\d:\d\d:\d\d messages/customer-7 order-1 done \S+ -> file\r$`)
	if err := server.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("a hangup does not drain: %v", err)
	}
	shown.await(t, `(?s)\d draining\r\n.*\d stopped\r\n`)
	_ = program.Close()
	lines, err := os.ReadFile(filepath.Join(dir, ".once", "messages.jsonl"))
	if err != nil || strings.Count(string(lines), "\n") != 1 {
		t.Errorf("%v: %s", err, lines)
	}
}
